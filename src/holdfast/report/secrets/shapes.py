"""Secrets that have a shape of their own, wherever they stand: keys, tokens, signatures."""

import re

from holdfast.report.secrets.names import REDACTED

_SHAPES = (
    # A key may be cut, because a reason shows only the start of a line.
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
    # A Scala tuple has neither quotes nor a space: `(fs.s3a.secret.key,…)`.
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
    # Anyone who knows such a URL can post to it.
    re.compile(r"(?<=hooks\.slack\.com/services/)[\w/\-]+|(?<=/api/webhooks/)[\w/\-]+"),
)


def remove(text: str) -> str:
    """Return a text without the secrets that have a known shape."""
    for shape in _SHAPES:
        text = shape.sub(REDACTED, text)
    return text
