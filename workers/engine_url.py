"""Where an external engine is, as `--engine-url` says it. Pure."""

from typing import Final
from urllib.parse import urlsplit

SCHEMES: Final = frozenset({"http", "https"})
_API: Final = "/v1"


def parse(url: str) -> str:
    """Return the address before `/v1`, with which a URL may end or not, as in OpenAI's `base_url`.

    Raises ValueError. Its message never repeats the URL, in which a password may stand.
    """
    parts = urlsplit(url.strip())
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise ValueError("must be as in https://host:port/v1")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not carry a login: every user of the machine can read a command line")
    if parts.query or parts.fragment:
        raise ValueError("must end with its path")
    if parts.port == 0:
        raise ValueError("port 0 is none")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix(_API).rstrip('/')}"
