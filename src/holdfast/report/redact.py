"""Takes secrets out of what is shown: by the name of an option, and by the look of a text.

A checkpoint can hold them: offsets of some connectors carry options and URLs, pinned settings
and run records carry whatever was set. A value is taken out when its name says that it is
secret, or when it stands in a text where secrets stand:

    password=…   "token": "…"   sasl.username=…   --password …   option("token", "…")
                                                       by the name in front of it
    scheme://user:…@host   scheme://…@host   ?sig=…   AccountKey=…;
                                                       by its place in a URL or connection string
    AKIA…   eyJ….eyJ….…   Bearer …                     by its own look
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from holdfast.model.json import Json

REDACTED = "(redacted)"
_SHORTEST = 12
_MOST_SLASHES = 64

# `pass`, `auth`, `cred` and `cookie` as words of their own: passengers, authors and credits are
# none, nor is what tells of a cookie. Of keys only those that open something, for most are columns:
# `client.key` is a file, and `consumer.key.deserializer` a class. `SASL_SSL` is a protocol.
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
_SECRET_NAME = re.compile(rf"(?i){_NAME}")
# Names that look secret and hold no secret: what they tell is needed to read a report.
_HARMLESS = re.compile(
    r"(?i)(?:[._\-]|^)(?:location|type|format|class|enabled|mechanisms?|provider|protocol|version|"
    r"partitions|algorithm|host|port|topic)$|shuffle|tokeni[sz]er|\.providerClass$|^keystore$|"
    r"\.auth\.type\.|\.endpoint\.url$|_per_|^persistent://|sasl.?mechanism$|"
    r"(?:exception|error)$"
)
# What stands between a name and its value, and what a value begins with where it is no bare word.
# A text of Python may have letters in front of its quote.
_LETTERS = r"""(?:[rbfuRBFU]{1,2}(?=\\*["']))?"""
_SEPARATOR = re.compile(rf"""(?P<quote>\\*["']?)\s*(?:[=:]|->)\s*{_LETTERS}""")
# Where code is shown, as in a traceback, both are arguments of a call; in SQL only a blank stands
# between a password and its text.
_CALL = re.compile(r"""\(\s{0,4}\\{0,4}["']\Z""")
_ARGUMENT = re.compile(rf"""(?P<quote>\\*["'])\s*,\s*{_LETTERS}(?=\\*["'])""")
_PASSWORD = re.compile(r"(?i)(?:pass(?:word|wd|phrase)|pwd)\Z")
_SQL_SEPARATOR = re.compile(r"""(?P<quote>)[ \t]+(?=\\*["'])""")
# On a command line a blank stands between them, and no dash in front of the value. What goes on in
# words tells of the option.
_OPTION = re.compile(
    r"(?P<quote>)[ \t]+(?!-|(?:is|was|are|or|and|not|for|to|with|must|may|can|cannot|should|has|"
    r"needs|requires|option|in|of|on|as)\b)"
)
_QUOTE = re.compile(r"""(?<!\\)(\\*+)(["'])""")
_MARK = re.compile(r"""(?<!\\)(\\*+)(["'])|[{}\[\]]""")
_TUPLE = re.compile(r"""\(\s*[rbfuRBFU]{0,2}\\*["']""")
_TUPLE_MARK = re.compile(r"""(?<!\\)(\\*+)(["'])|[()]""")
# A backslash in front of a quote belongs to the quote.
_WORD = r"""(?:\(redacted\)|(?!\\{1,8}["'])[^\s,;&"'`}\])])++"""
_BARE = re.compile(_WORD)
# A folder of a partition may be called as a secret is: `/auth=google/part-0.json`.
_FOLDER = re.compile(_WORD.replace("[^", "[^/"))
# The header of a request names its scheme first; some schemes take several values with names.
_HEADER = "authorization"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9\-]*+")
_PARAMETER = rf"""[\w\-]++=(?:\\*"[^"`]*+"?|(?:{_WORD}|[;&])*+)"""
_CREDENTIALS = re.compile(rf"[ \t]++(?:{_PARAMETER}(?:,[ \t]*+{_PARAMETER})*+|{_WORD})")
# A column may be called as a secret is. What stands after it in a schema is its type.
_TYPE = re.compile(
    r"(?:string|binary|boolean|tinyint|smallint|int|bigint|float|double|date|timestamp(?:_ntz)?|"
    r"void|variant)(?=[,>)\s]|$)|(?:struct|array|map)<|(?:decimal|char|varchar)\("
)
# Nor is what is said of a path: `/lake/tokens: permission denied`.
_PATH_MESSAGE = re.compile(r": +[A-Za-z]+ [A-Za-z]")
_AFTER = re.compile(r"""(?:[\s):,.;][^"'{}\[\]\\]*)?""")
_WORDS = frozenset({"null", "true", "false", "…"})
# A topic may be called as a secret is. What it holds are partitions and their offsets.
_OFFSETS = re.compile(r"""\{(?:\s*\\*"\d+\\*"\s*:\s*-?\d+\s*,?)*+\s*\}""")
# Also what turns the direction of a text, which could make it read as another one,
# or that nobody sees, as a mark of the order of bytes.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_LETTER = re.compile(r"[\w.\-]")
# No scheme in front: looking for one from every letter of a long text would take for ever. A key
# of S3 may hold slashes; a number with a slash after it is a port. Without a colon it is a token,
# or the name of a user; in a URL of Azure it is the container.
_USER_INFO = re.compile(
    r"://[^/\s@:]*+:(?!\d+(?:[^\w\-.~%+=@:]|$))[^\s@]{1,1024}+@(?:[^\s@/]{1,256}+@)*+|"
    r"(?i:(?<!abfs)(?<!abfss)(?<!wasb)(?<!wasbs))://[^/\s@:,;?#\"'`<>(){}\[\]]{1,1024}+@"
)
# The same, cut before the `@`, where a colon tells it from a host.
_CUT_USER_INFO = re.compile(r"://[^/\s@:\[]*+:(?![\d/\\])[^\s@`…]{1,1024}+(?=[`…])")
_CLOSING = re.compile(r"""(?<!\\)(\\*+)(["'])(?=\s*[,;:}\])])""")
_LOOKS = (
    # Keys may be cut where a reason shows only the beginning of a line.
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{8,}\b"),
    re.compile(r"(?<![\w\-])eyJ[\w\-]{8,}+\.[\w\-]{4,}+(?:\.[\w\-]*)?"),
    re.compile(r"(?i)\b(?:bearer|basic)\s+[\w.\-~+/]{8,}=*"),
    re.compile(
        r"(?i)(?<=[?&])(?:sig|x-amz-(?:signature|security-token|credential))="
        r"[^&\s\"'`\\]*[^&\s\"'`\\,;]"
    ),
    re.compile(
        r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?"
        r"(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|$)"
    ),
    re.compile(r"LoginModule\s+(?:required|requisite|sufficient|optional)\b[^;\n]*;?"),
    re.compile(
        r"\b(?:dapi[0-9a-f]{8,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|glpat-[\w\-]{16,}"
        r"|xox[abprs]-[\w\-]{10,}|AIza[\w\-]{20,}|[sr]k_live_\w{16,}"
        r"|sk-(?:ant|proj|svcacct)-[\w\-]{16,}|hf_[A-Za-z]{30,}|hvs\.[\w\-]{20,}"
        r"|ya29\.[\w\-]{20,}|npm_[A-Za-z0-9]{36})"
    ),
    *(
        re.compile(rf"(?<=jdbc:oracle:{kind}:)[^\s/@]{{1,256}}/[^\s@]{{1,256}}(?=@)")
        for kind in ("thin", "oci", "oci8", "kprb")
    ),
    # A tuple of Scala has neither quotes nor a blank: `(fs.s3a.secret.key,…)`.
    re.compile(
        r"(?i)(?<=[(,])[\w.\-]{0,64}(?:pass(?:word|wd|phrase)|pwd|secret(?:\.key)?|token|api.?key)"
        r",[^\s,()\"']{1,512}(?=\))"
    ),
    re.compile(
        r"(?i)<(?P<tag>[\w.\-]{0,64}(?:pass(?:word|wd|phrase)|pwd|secret\w{0,16}|token|accesskey))>"
        r"[^<]{1,4096}(?=</(?P=tag)>)"
    ),
    re.compile(
        r"(?i)(?:secret|pass(?:word|wd)|token|account\.key|access\.key)[\w.\-]{0,128}</name>\s{0,16}"
        r"<value>[^<]{1,4096}(?=</value>)"
    ),
    re.compile(r"(?<=curl -u )[^\s:]{0,256}:\S{1,256}|(?<= --user )[^\s:]{0,256}:\S{1,256}"),
    re.compile(r"(?i)(?<=identified by )[\"'][^\s\"']+[\"']?"),
    # Whoever knows such a URL may post to it.
    re.compile(r"(?<=hooks\.slack\.com/services/)[\w/\-]+|(?<=/api/webhooks/)[\w/\-]+"),
)


@lru_cache(maxsize=1024)
def is_secret(name: str) -> bool:
    """Whether an option of this name holds a secret."""
    return bool(_SECRET_NAME.search(name)) and not _HARMLESS.search(name)


def text(shown: str) -> str:
    """A text without the secrets that can be told from it."""
    if len(shown) < _SHORTEST and shown.isalnum():
        return shown
    for look in _LOOKS:
        shown = look.sub(REDACTED, shown)
    shown = url_users(shown)
    shown = "".join(_remove_users(shown, _CUT_USER_INFO, f"://{REDACTED}"))
    return "".join(_remove_values(shown))


def url_users(shown: str) -> str:
    """A text whose URLs name no user, and so no password."""
    return "".join(_remove_users(shown, _USER_INFO, f"://{REDACTED}@"))


def for_display(given: str) -> str:
    """A text for people: without secrets, and with nothing in it that a terminal would obey."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text(given))


def _remove_users(shown: str, pattern: re.Pattern[str], instead: str) -> Iterator[str]:
    """The user parts of URLs replaced; an `@` behind the text that a URL stands in is not its."""
    done = at = 0
    while found := pattern.search(shown, at):
        at = _find_url_end(found)
        inside = found if at == found.end() else pattern.match(shown, found.start(), at)
        if inside:
            yield shown[done : inside.start()]
            yield instead
            done = at = inside.end()
    yield shown[done:]


def _find_url_end(found: re.Match[str]) -> int:
    """Where the URL ends: with what was found, or at the quote that closes the text with it.

    A password may hold quotes. One closes the text only where one with at least as many backslashes
    stands in front of the URL, and a mark of JSON behind.
    """
    before: dict[str, int] = {}
    for quote in _CLOSING.finditer(found.string, found.start(), found.end()):
        if quote[2] not in before:
            before[quote[2]] = _count_slashes(
                found.string, found.string.rfind(quote[2], 0, found.start())
            )
        if before[quote[2]] >= len(quote[1]):
            return quote.start()
    return found.end()


def _count_slashes(shown: str, at: int) -> int:
    """How many backslashes stand in front of a place; fewer than none, where there is none."""
    if at < 0:
        return -1
    before = shown[max(0, at - _MOST_SLASHES) : at]
    return len(before) - len(before.rstrip("\\"))


def _remove_values(shown: str) -> Iterator[str]:
    """Names are found first and their values after them: linear, however long the text is."""
    done = looked = 0
    for found in _SECRET_NAME.finditer(shown):
        start, end = found.span()
        if start < looked:
            continue
        while start > looked and _LETTER.match(shown, start - 1):
            start -= 1
        while _LETTER.match(shown, end):
            end += 1
        looked = end
        given = _find_separator(shown, start, end)
        if given is None or not is_secret(shown[start:end]):
            continue
        in_path = given[0] == "=" and shown[start - 1 : start] == "/"
        stop, quote = _find_value_end(shown, given, _FOLDER if in_path else _BARE)
        if stop == given.end():
            continue
        yield shown[done : given.end()]
        yield f"{quote}{REDACTED}{quote}"
        done = looked = stop
    yield shown[done:]


def _find_separator(shown: str, start: int, end: int) -> re.Match[str] | None:
    """What stands between a name and its value, or nothing where no value follows."""
    if shown[start - 1 : start] == "/" and _PATH_MESSAGE.match(shown, end):
        return None
    found = _SEPARATOR.match(shown, end)
    if found is None and shown[start] == "-":
        found = _OPTION.match(shown, end)
    if found is None and _CALL.search(shown, max(0, start - 10), start):
        found = _ARGUMENT.match(shown, end)
    if found is None and _PASSWORD.search(shown, start, end):
        found = _SQL_SEPARATOR.match(shown, end)
    return found


def _find_value_end(shown: str, given: re.Match[str], word: re.Pattern[str]) -> tuple[int, str]:
    """Where the value of a name ends, and the quotes for what takes its place.

    It ends where it began where there is nothing to take out.
    """
    at = given.end()
    opened = _QUOTE.match(shown, at)
    if opened:
        stop = _find_text_end(shown, opened)
        nothing = shown[opened.end() : stop] in (opened[0], REDACTED + opened[0])
        return (at if nothing else stop), opened[0]
    if shown[at : at + 1] in ("{", "[") or _TUPLE.match(shown, at):
        stop = _find_nested_end(shown, at)
        return (at if _OFFSETS.fullmatch(shown, at, stop) else stop), given["quote"]
    bare = word.match(shown, at)
    if not given["quote"] and ":" in given[0] and _TYPE.match(shown, at):
        return at, ""
    if bare is None or bare[0] in _WORDS or bare[0] == REDACTED:
        return at, ""
    return _find_credentials_end(shown, given, bare), given["quote"]


def _find_credentials_end(shown: str, given: re.Match[str], bare: re.Match[str]) -> int:
    """Where a bare value ends: of a header of a request the word is only the scheme."""
    name = shown[max(0, given.start() - len(_HEADER)) : given.start()]
    if name.lower() == _HEADER and _SCHEME.fullmatch(bare[0]):
        credentials = _CREDENTIALS.match(shown, bare.end())
        return credentials.end() if credentials else bare.end()
    return bare.end()


def _find_text_end(shown: str, opened: re.Match[str]) -> int:
    """The end of a text in quotes, which may be a text inside of another one, or cut.

    A quote closes the text that one with as many backslashes has opened. With more it is part of
    the text; with fewer it closes the text outside.
    """
    depth, closing = len(opened[1]), opened[2]
    for found in _QUOTE.finditer(shown, opened.end()):
        if found[2] != closing:
            continue
        if len(found[1]) < depth:
            return found.start()
        if len(found[1]) % (2 * depth + 2) == depth:
            return found.end()
    return _find_cut_end(shown, opened.end())


def _find_nested_end(shown: str, at: int) -> int:
    """The end of an object, a list or a tuple, which may be cut."""
    depth, position = 0, at
    mark = _TUPLE_MARK if shown[at] == "(" else _MARK
    while found := mark.search(shown, position):
        position = found.end()
        if found[2]:
            position = _find_text_end(shown, found)
            continue
        depth += 1 if found[0] in "{[(" else -1
        if depth == 0:
            return position
    return _find_cut_end(shown, at)


def _find_cut_end(shown: str, at: int) -> int:
    """Where a value ends that is nowhere closed: with the text, or the backticks around it.

    The value may hold a backtick itself, so that only one is taken for the end that closes another
    in front of the value, and that words follow.
    """
    last = shown.rfind("`", at)
    around = shown.count("`", 0, at) % 2 and last >= 0 and _AFTER.fullmatch(shown, last + 1)
    return last if around else len(shown)


def value(shown: Json) -> Json:
    """Any JSON without secrets: by the names in it, and by the look of its texts."""
    if isinstance(shown, str):
        return text(shown)
    if isinstance(shown, Mapping):
        return {_redact_key(key): _redact_member(key, one) for key, one in shown.items()}
    if isinstance(shown, Sequence):
        return [value(one) for one in shown]
    return shown


@lru_cache(maxsize=1024)
def _redact_key(name: str) -> str:
    """The same few names stand in every row of a long report."""
    return text(name)


def _redact_member(name: str, shown: Json) -> Json:
    return _hide(shown) if is_secret(name) else value(shown)


def _has_only_offsets(shown: Json) -> bool:
    """Whether these are partitions and their offsets, of a topic that is called as a secret is."""
    return isinstance(shown, Mapping) and all(
        name.isdecimal() and isinstance(one, int) for name, one in shown.items()
    )


def _hide(shown: Json) -> Json:
    """What is below the name of a secret: its shape, and nothing that it holds."""
    if _has_only_offsets(shown):
        return shown
    if isinstance(shown, Mapping):
        return {_redact_key(key): _hide(one) for key, one in shown.items()}
    if isinstance(shown, Sequence) and not isinstance(shown, str):
        return [_hide(one) for one in shown]
    return shown if shown is None or isinstance(shown, bool) or shown == "" else REDACTED


def settings(shown: Mapping[str, str]) -> dict[str, str]:
    """Settings without the values of secrets."""
    return {key: setting(key, one) for key, one in shown.items()}


def setting(name: str, shown: str) -> str:
    """The value of a setting, unless it is secret."""
    return REDACTED if is_secret(name) and shown else text(shown)
