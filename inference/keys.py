"""The form of an API key."""

from rest_framework_api_key.crypto import KeyGenerator

PREFIX = "sk-"


class OpenAIKeyGenerator(KeyGenerator):
    """Keys as `sk-<8 characters>.<40 characters>`: SDKs and secret scanners know `sk-`. Only a hash is stored."""

    def __init__(self) -> None:
        super().__init__(prefix_length=8, secret_key_length=40)

    def get_prefix(self) -> str:
        """Return the part that is stored in clear and looked up."""
        return PREFIX + str(super().get_prefix())
