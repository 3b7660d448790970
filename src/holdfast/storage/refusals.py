"""An error of an object store's client -> one sentence, and a hint.

The client passes on the whole answer of the server, which is a page of XML or JSON.
"""

import re

from holdfast.storage import urls

_STATUS = re.compile(r"non-2xx status code: (\d{3}(?: [A-Z][A-Za-z-]*)*)")
_CODE = re.compile(r"<Code>([A-Za-z]+)</Code>")
_ANSWER_ENDS = "\n\nDebug source:"
_SIGNING_IN = "token request"
_WITHOUT_KEYS = (
    _SIGNING_IN,
    "Configuration key",
    "Invalid Access Key",
    "credential error",
    "must be specified",
)
_KEYS = {
    "s3": ("aws_access_key_id", "aws_secret_access_key"),
    "gs": ("google_service_account",),
}
_AZURE_KEYS = ("azure_storage_account_name", "azure_storage_account_key")


def explain(error: Exception) -> str:
    """Return what went wrong, in one line."""
    message = _get_message(error)
    status = _STATUS.search(message)
    if status:
        server = "the token server" if _SIGNING_IN in message else "the server"
        code = _CODE.search(message)
        return f"{server} answered with `{status[1]}`" + (f" (`{code[1]}`)" if code else "")
    return message.splitlines()[0] if message else type(error).__name__


def is_forbidden(error: Exception) -> bool:
    """Return whether the server refuses this user."""
    status = _STATUS.search(_get_message(error))
    refused = status is not None and status[1].startswith(("401", "403"))
    return isinstance(error, PermissionError) or (
        refused and _SIGNING_IN not in _get_message(error)
    )


def make_hint(url: str, error: Exception) -> str:
    """Return what to do about an error."""
    message = _get_message(error)
    if "No space left" in message or "quota" in message.lower():
        return f"free space on the disk of `{url}`, then start again"
    if any(words in message for words in _WITHOUT_KEYS):
        keys = _KEYS.get(urls.get_scheme(urls.to_rust_url(url)), _AZURE_KEYS)
        options = " ".join(f"--storage {key}=…" for key in keys)
        return f"add the credentials, as in `{options}`, or in `Pipeline(storage=…)`"
    return f"check that `{url}` exists and that this user may read and write it"


def _get_message(error: Exception) -> str:
    return str(error).partition(_ANSWER_ENDS)[0].strip()
