"""A digest of code that prose does not change: what was proved of the code stays proved."""

import ast
import hashlib
from collections.abc import Iterable
from pathlib import Path


def digest_code(paths: Iterable[Path]) -> str:
    """Return a digest of what the modules do; comments, docstrings and layout do not count."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        tree = _WithoutProse().visit(ast.parse(path.read_bytes()))
        # The text and not the dump of the tree: Python adds fields to the latter.
        digest.update(f"{path.name}\n{ast.unparse(tree)}\n".encode())
    return digest.hexdigest()[:16]


class _WithoutProse(ast.NodeTransformer):
    """Drops texts that stand alone as a statement: docstrings, also those of values."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            node.body = node.body or [ast.Pass()]
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        alone = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if alone else node
