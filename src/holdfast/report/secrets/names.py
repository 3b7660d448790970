"""Names of options that contain a secret, and the mark that takes the place of a secret."""

import re
from functools import lru_cache

REDACTED = "(redacted)"

# `pass`, `auth`, `cred` and `cookie` only as separate words: passengers, authors and credits are no
# secrets, nor is what describes a cookie. Only keys that open something count, for most keys are
# columns: `client.key` is a file, `consumer.key.deserializer` a class. `SASL_SSL` is a protocol.
_NAME = (
    r"pass(?:word|wd|phrase|code)|(?:db|user)pass\b|"
    r"(?:(?<![a-z])pass|(?-i:(?<=[a-z])Pass))(?-i:(?![a-z]))|pwd|secret(?!ar)|"
    r"token|credential|jaas|(?:private|access|account|api|auth|master|sas|shared|signing|hmac|"
    r"(?:en|de)cryption|subscription|license).?key\b|"
    r"(?:client|consumer|app(?:lication)?)[_\-]?key\b|"
    r"(?<![a-z])sasl[._\-](?!(?:ssl|plaintext)\b)|(?-i:(?<![a-z])sasl(?=[A-Z]))|"
    r"(?:private|access|account|api).?key|shared.?access|"
    r"auth(?:orization|entication)|(?:(?<![a-z])o?auth|(?-i:(?<=[a-z])Auth))(?-i:(?![a-z]))|"
    r"connection.?string|keystore|truststore|(?<![a-z])sas\b|signature|"
    r"(?<![a-z])creds?(?![a-z])|(?-i:(?<=[a-z])Creds?(?![a-z])|(?<![A-Za-z])[Cc]reds?(?=[A-Z]))|"
    r"(?:(?<![a-z])(?:session)?cookies?|(?-i:(?<=[a-z])Cookies?))(?![\w.\-])"
)
PATTERN = re.compile(rf"(?i){_NAME}")
# Names that look secret, but whose values are harmless and needed to read a report.
_HARMLESS = re.compile(
    r"(?i)(?:[._\-]|^)(?:location|type|format|class|enabled|mechanisms?|provider|protocol|version|"
    r"partitions|algorithm|host|port|topic)$|shuffle|tokeni[sz]er|\.providerClass$|^keystore$|"
    r"\.auth\.type\.|\.endpoint\.url$|_per_|^persistent://|sasl.?mechanism$|"
    r"(?:exception|error)$"
)


@lru_cache(maxsize=1024)
def is_secret(name: str) -> bool:
    """Return whether an option of this name contains a secret."""
    return bool(PATTERN.search(name)) and not _HARMLESS.search(name)
