"""What the sinks ask PostgreSQL's catalog, whichever client they use; `{0}` stands for a value.

A batch is safe only where its rows and the ledger are committed together and outlive a crash of the
server. That does not hold for every relation that takes an INSERT:

    UNLOGGED         emptied by a crash, while the ledger beside it is not
    TEMPORARY        gone with the session
    foreign table    another server commits on its own
    view             writes go wherever its rules or triggers send them
    rule             rows go wherever the rule sends them

The same holds for each partition and each child table.
"""

from collections.abc import Sequence

from holdfast.errors import SinkRefused

_TREE = """
WITH RECURSIVE tree(oid) AS (
    SELECT to_regclass({0})::oid
    UNION SELECT i.inhrelid FROM pg_inherits i JOIN tree ON tree.oid = i.inhparent)"""
RELATIONS = f"""{_TREE}
SELECT c.oid::regclass::text,
       CASE WHEN c.relkind IN ('v', 'm') THEN 'view'
            WHEN c.relkind = 'f' THEN 'foreign'
            WHEN c.relkind NOT IN ('r', 'p') THEN 'other'
            WHEN c.relpersistence = 'u' THEN 'unlogged'
            WHEN c.relpersistence = 't' THEN 'temporary'
            ELSE 'rule' END
FROM tree JOIN pg_class c ON c.oid = tree.oid
WHERE c.relkind NOT IN ('r', 'p') OR c.relpersistence <> 'p'
   OR EXISTS (SELECT FROM pg_rewrite r
              WHERE r.ev_class = c.oid AND r.ev_type <> '1' AND r.ev_enabled <> 'D')
ORDER BY c.oid LIMIT 1"""  # noqa: S608  two constants
# Of triggers for each row, before a deletion: they can keep the row in without an error.
DELETE_TRIGGERS = f"""{_TREE}
SELECT g.tgname FROM tree JOIN pg_trigger g ON g.tgrelid = tree.oid
WHERE g.tgenabled <> 'D' AND g.tgtype::int & 1 <> 0 AND g.tgtype::int & 2 <> 0
  AND g.tgtype::int & 8 <> 0 LIMIT 1"""  # noqa: S608  two constants
# Whether this transaction has written the row `t`.
OURS = "t.xmin = pg_current_xact_id()::xid"
INEXACT = """
SELECT a.attname::text FROM pg_attribute a JOIN pg_collation c ON c.oid = a.attcollation
WHERE a.attrelid = to_regclass({0}) AND NOT c.collisdeterministic
UNION
SELECT a.attname::text FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int2[], i.indcollation::oid[]) AS part(number, used)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = part.number
JOIN pg_collation c ON c.oid = part.used
WHERE i.indrelid = to_regclass({0}) AND i.indisunique AND NOT c.collisdeterministic"""
HOLDERS = """
SELECT DISTINCT concat(a.pid, ' (role ', a.usename, ', application `', a.application_name, '`',
    ', ' || a.state, ', transaction since ' || to_char(a.xact_start, 'YYYY-MM-DD HH24:MI:SS'), ')')
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.relation = to_regclass({0}) AND l.granted AND l.pid <> pg_backend_pid()
  AND l.mode IN ('RowShareLock', 'RowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')"""
OLDER = """
SELECT pid FROM pg_stat_activity
WHERE starts_with(application_name, {0}) AND pid <> pg_backend_pid()
  AND datname = current_database()
  AND substr(application_name, length({0}) + 1) ~ '^[0-9]+$'
  AND substr(application_name, length({0}) + 1)::bigint < {1}"""
# One by one: a role may not end the sessions of every other role, and that is an error.
END = "SELECT pg_terminate_backend(CAST({0} AS integer))"
CURE = (
    "let the session finish, or end it by `SELECT pg_terminate_backend(…)` with its number, as the"
    " role that it names or as a superuser; then start again"
)
_WHY = {
    "view": "is a view",
    "foreign": "is a foreign table, which another server commits",
    "other": "is no table",
    "unlogged": "is UNLOGGED: a crash of the server empties it, and the ledger keeps its batches",
    "temporary": "is TEMPORARY",
    "rule": "has a rule, which can send rows elsewhere",
}


def refuse_key(
    table: str, keys: Sequence[str], found: Sequence[Sequence[object]]
) -> SinkRefused | None:
    """Return the error for a key whose collation takes different texts for equal."""
    inexact = [str(name) for (name,) in found if name in keys]
    if not inexact:
        return None
    return SinkRefused(
        f"expected the key column `{inexact[0]}` of `{table}` to tell texts apart by every"
        " character, found a nondeterministic collation: keys that it takes for equal would"
        " overwrite one another",
        hint=f'change the column and its index to COLLATE "C", then start again: `{inexact[0]}`',
    )


def refuse_relation(table: str, found: Sequence[Sequence[object]]) -> SinkRefused | None:
    """The error for a relation that cannot change with its ledger in one durable step."""
    if not found:
        return None
    name, kind = str(found[0][0]), str(found[0][1])
    cure = {
        "unlogged": f"check that its rows are complete, then run ALTER TABLE {name} SET LOGGED",
        "rule": "drop the rule, or write to the table that it names",
    }
    return SinkRefused(
        f"expected `{table}` to be a table that keeps its rows in a crash, as its ledger does; but"
        f" {name} {_WHY[kind]}",
        hint=cure.get(kind, "write to an ordinary table"),
    )
