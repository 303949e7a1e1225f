"""What the stack tells its user, and the program that started it, once it can take work."""

import json
from pathlib import Path
from typing import Any

from project.stack import credentials
from project.stack.config import StackConfig
from project.stack.supervisor import Supervisor


def text(config: StackConfig, model: str) -> str:
    """URLs, logins, and a command that works as it stands."""
    secret = config.credentials
    return f"""
Sluice is ready.

  Dashboard  {config.base_url}/        {secret.admin_user} / {secret.admin_password}
  Admin      {config.base_url}/admin/  (the same login)
  API        {config.base_url}/v1      key: {secret.api_key}
  Flower     {config.flower_url}/        {secret.flower_user} / {secret.flower_password}

  curl {config.base_url}/v1/chat/completions -H 'Authorization: Bearer {secret.api_key}' \\
       -H 'Content-Type: application/json' \\
       -d '{{"model": "{model}", "messages": [{{"role": "user", "content": "Say hello."}}], "max_tokens": 32}}'

Logins are kept in {config.options.state_dir / credentials.FILE_NAME}. Ctrl-C stops everything.
"""


def document(config: StackConfig, supervisor: Supervisor) -> dict[str, Any]:
    """Return the same for a program."""
    secret = config.credentials
    return {
        "base_url": config.base_url,
        "api_key": secret.api_key,
        "admin_user": secret.admin_user,
        "admin_password": secret.admin_password,
        "flower_url": config.flower_url,
        "flower_user": secret.flower_user,
        "flower_password": secret.flower_password,
        "state_dir": str(config.options.state_dir),
        "redis_url": config.redis_url,
        "workers": config.worker_names,
        "pids": {name: pid for name, life in supervisor.lives.items() for pid in life.watcher.get_active_pids()},
    }


def write(path: Path, document: dict[str, Any]) -> None:
    """Write the document to the ready file, mode 600, all or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    credentials.write_private(path, json.dumps(document, indent=2))
