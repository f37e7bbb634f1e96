"""One session of the PostgreSQL door: messages in order, each relayed to the shadow or answered from the gate.

An answer enters the client's own portal as a statement of constants, so formats, cursors and the state of the
transaction are PostgreSQL's. Whatever can fail fails before the gate is asked.
"""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from keyhole.serve.errors import ERRORS, Problem, ProblemKind
from keyhole.serve.gate import Gate, Population
from keyhole.serve.keys import ApiKey
from keyhole.serve.limits import MOST_SQL
from keyhole.serve.postgres_wire.messages import (
    MOST_RESPONSE,
    ProtocolViolation,
    pack_bind,
    pack_error,
    pack_message,
    pack_notice,
    pack_parse,
    read_message,
    split_columns,
    split_text,
    split_values,
    strip_details,
    unpack,
)
from keyhole.serve.postgres_wire.statements import (
    RELAYED,
    WHOLE_TYPES,
    ClientStatement,
    ProtectedQuestion,
    Purpose,
    find_question,
    is_other_copy,
    split_statements,
    write_cell,
    write_denial,
    write_guard,
    write_parameter,
    write_rows,
)
from keyhole.serve.replies import AnsweredQuestion, CheckedQuestion

MOST_PREPARED = 256  # statements, and portals, of one session
SHADOW_SECONDS = 40.0  # that the shadow may take for one message: it stops a statement after 30
ENDS = {b"P": b"1", b"B": b"2", b"C": b"3", b"D": b"Tn", b"E": b"CIs"}  # what ends the responses to a message
BESIDE = b"NSA"  # notices, settings and notifications come at any time
PLAN = [("QUERY PLAN", "text")]
OURS = b"_keyhole"  # the name of our own statements in the shadow
_TOO_LONG = write_denial(ERRORS[ProblemKind.TOO_LARGE].sqlstate, f"at most {MOST_SQL:,} bytes of SQL are read", "")


class Failed(Exception):
    """The shadow refused something: its error was passed on, and the client's messages are skipped up to Sync."""


@dataclass(slots=True)
class Prepared:
    """A statement over protected tables that a client prepared: what its parameters and columns are."""

    question: ProtectedQuestion
    parameters: list[int]
    columns: list[tuple[str, int]]


@dataclass(slots=True)
class Portal:
    """The same with its values; asked when it is first executed."""

    prepared: Prepared
    values: list[str | None]
    results: bytes


@dataclass(slots=True)
class WireSession:
    """A client that proved its key, and its backend in the shadow."""

    gate: Gate
    population: Population
    key: ApiKey
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    shadow_reader: asyncio.StreamReader
    shadow_writer: asyncio.StreamWriter
    backend: bytes = b""  # what cancels the backend in the shadow
    asking: bool = False
    cancelled: bool = False
    _protected: frozenset[str] = frozenset()
    _prepared: dict[bytes, Prepared] = field(default_factory=dict)
    _portals: dict[bytes, Portal] = field(default_factory=dict)
    _types: dict[int, str] = field(default_factory=dict)
    _skipping: bool = False
    _notices: list[bytes] = field(default_factory=list)
    _end: bytes = b"I"  # in which transaction the client is

    async def run(self) -> None:
        """Until the client says goodbye."""
        schema = self.population.schema
        tables = [schema.table, *(related.name for related in schema.related)]
        names = {name.rsplit(".", 1)[-1] for name in tables}
        self._protected = frozenset(names | {name.lower() for name in names})
        while True:
            kind, body = await read_message(self.reader)
            if kind == b"X":
                return
            if self._skipping and kind != b"S":
                continue  # as PostgreSQL does after an error, Query too
            try:
                await self._take(kind, body)
            except Failed:
                self._skipping = True
            if kind in b"QSH":
                await self.writer.drain()

    async def _take(self, kind: bytes, body: bytes) -> None:
        match kind:
            case b"Q":
                await self._take_query(body)
            case b"P":
                await self._take_parse(body)
            case b"B":
                await self._take_bind(body)
            case b"E":
                await self._take_execute(body)
            case b"D":
                await self._relay(kind, body)
            case b"C":
                (self._prepared if body[:1] == b"S" else self._portals).pop(body[1:-1], None)
                await self._relay(kind, body)
            case b"S":
                self._skipping = False
                await self._sync()
            case b"F":
                self.writer.write(pack_error("0A000", "function call messages are not supported"))
                await self._sync()
            case b"H" | b"d" | b"c" | b"f":
                pass
            case _:
                raise ProtocolViolation("a message of an unknown kind")

    # --- the shadow ---------------------------------------------------------------------------------------------------

    async def _read_shadow(self) -> tuple[bytes, bytes]:
        async with asyncio.timeout(SHADOW_SECONDS):
            return await read_message(self.shadow_reader, MOST_RESPONSE)

    async def _relay(self, kind: bytes, body: bytes) -> None:
        """One message of the extended protocol, and all that the shadow says to it."""
        self.shadow_writer.write(pack_message(kind, body) + pack_message(b"H"))  # else it keeps its responses
        while True:
            what, answer = await self._read_shadow()
            await self._pass_on(what, answer)
            if what == b"E":
                raise Failed
            if what in ENDS[kind]:
                return

    async def _pass_on(self, what: bytes, answer: bytes) -> None:
        self.writer.write(pack_message(what, strip_details(answer) if what == b"E" else answer))
        if self.writer.transport.get_write_buffer_size() > 1 << 20:
            await self.writer.drain()

    async def _sync(self) -> None:
        """The end of a series: the shadow says in which transaction the client is."""
        self.shadow_writer.write(pack_message(b"S"))
        what = b""
        while what != b"Z":
            what, answer = await self._read_shadow()
            await self._pass_on(what, answer)

    async def _run_query(self, sql: str) -> bytes | None:
        """A statement of the simple protocol, with all that the shadow says but the end; that, or None if it failed."""
        self.shadow_writer.write(pack_message(b"Q", sql.encode("utf-8", "replace") + b"\0"))
        failed = False
        while True:
            what, answer = await self._read_shadow()
            if what == b"Z":
                self._end = answer
                return None if failed else answer
            failed |= what == b"E"
            await self._pass_on(what, answer)

    async def _ask_shadow(self, messages: list[bytes], count: int) -> list[tuple[bytes, bytes]]:
        """Messages of our own: the responses, without what comes at any time. An error goes to the client."""
        self.shadow_writer.write(b"".join(messages) + pack_message(b"H"))
        responses: list[tuple[bytes, bytes]] = []
        while count:
            what, answer = await self._read_shadow()
            if what in BESIDE:
                self.writer.write(pack_message(what, answer))
                continue
            if what == b"E":
                await self._pass_on(what, answer)
                raise Failed
            responses.append((what, answer))
            count -= what not in b"Dt"
        return responses

    async def _describe(self, name: bytes, parse: bytes) -> tuple[list[int], list[tuple[str, int]]]:
        """Prepare a statement under a name; the types of its parameters, and its columns."""
        responses = await self._ask_shadow([parse, pack_message(b"D", b"S" + name + b"\0")], 2)
        parameters: list[int] = []
        columns: list[tuple[str, int]] = []
        for what, answer in responses:
            if what == b"t":
                parameters = list(struct.unpack_from(f"!{unpack('!h', answer, 0)}I", answer, 2))
            elif what == b"T":
                columns = split_columns(answer)
        return parameters, columns

    async def _name_type(self, kind: int) -> str:
        if kind not in self._types:
            sql = f"SELECT pg_catalog.format_type({kind}, NULL)"
            ((value, *_), *_) = await self._read_rows(sql, [], [], b"\0\0")
            self._types[kind] = "text" if value is None else value.decode()
        return self._types[kind]

    async def _read_rows(
        self, sql: str, types: list[int], values: list[bytes | None], formats: bytes
    ) -> list[list[bytes | None]]:
        """Rows of a statement of our own."""
        packed = struct.pack("!h", len(types)) + b"".join(struct.pack("!I", kind) for kind in types)
        parse = pack_message(b"P", OURS + b"\0" + sql.encode() + b"\0" + packed)
        messages = [_close(b"S", OURS), parse, pack_bind(OURS, OURS, values, formats)]
        messages += [pack_message(b"E", OURS + b"\0" + struct.pack("!i", 0)), _close(b"P", OURS)]
        return [split_values(b, 0)[0] for what, b in await self._ask_shadow(messages, 5) if what == b"D"]

    # --- questions ----------------------------------------------------------------------------------------------------

    async def _write_answer(self, prepared: Prepared, values: list[str | None]) -> str:
        """The statement that gives the answer in the client's columns, or the error."""
        question = prepared.question
        types = [await self._name_type(kind) for _, kind in prepared.columns]  # all that can fail comes before the gate
        key = self._find_key()
        if isinstance(key, Problem):
            return _write_problem(key)
        outcome = await self._ask_gate(key, prepared, values)
        if isinstance(outcome, Problem):
            return _write_problem(outcome)
        if isinstance(outcome, CheckedQuestion):
            return _write_lines([f"allow: {_describe_price(outcome)}", f"judged as: {outcome.sql}"])
        kinds = [kind for _, kind in prepared.columns]
        if any(len(row) != len(kinds) for row in outcome.rows):
            return _write_problem(Problem(ProblemKind.INTERNAL, f"the answer is entry {outcome.entry} of the book"))
        rows = [[write_cell(cell, kind) for cell, kind in zip(row, kinds, strict=True)] for row in outcome.rows]
        self._notices += [pack_notice(text) for text in _describe_answer(outcome, kinds)]
        named = [(name, kind) for (name, _), kind in zip(prepared.columns, types, strict=True)]
        return f"{question.before}{write_rows(named, rows)}{question.after}"

    def _find_key(self) -> ApiKey | Problem:
        """The client's key as it is now; a token of it is taken."""
        known = self.gate.keys.find_digest(self.key.digest)
        if known is None:
            return Problem(ProblemKind.KEY, "this key was revoked, or has expired")
        return self.gate.throttle(known) or known

    async def _ask_gate(
        self, key: ApiKey, prepared: Prepared, values: list[str | None]
    ) -> AnsweredQuestion | CheckedQuestion | Problem:
        name, sql, width = self.population.name, prepared.question.sql, len(prepared.columns)
        self.asking, self.cancelled = True, False
        try:
            return await self.gate.ask(
                name,
                key,
                sql,
                door="postgres",
                is_cancelled=lambda: self.cancelled,
                translate=lambda: self.gate.trials.translate(name, sql, values, prepared.parameters, width, key.name),
                check=prepared.question.purpose is Purpose.EXPLAIN,
            )
        finally:
            self.asking = False

    # --- the simple protocol ------------------------------------------------------------------------------------------

    async def _take_query(self, body: bytes) -> None:
        """Several statements are taken one by one, and the first error ends them."""
        text = split_text(body)[0].decode("utf-8", "replace")
        self._prepared.pop(b"", None)
        statements = split_statements(text) if len(body) <= MOST_SQL else []
        if not statements:
            await self._run_query(text if len(body) <= MOST_SQL else _TOO_LONG)
        for statement in statements:
            written = await self._rewrite(statement)
            if written is None or await self._run_query(written) is None:
                break
        self.writer.write(pack_message(b"Z", self._end))

    async def _rewrite(self, statement: ClientStatement) -> str | None:
        """What the shadow runs for a statement: itself, its answer, or its error; None if an error was passed on."""
        if statement.first not in RELAYED:
            return _write_refusal(statement.first)
        if not statement.names_any(self._protected):
            return _write_refusal("COPY without a query") if is_other_copy(statement) else statement.text
        question = find_question(statement)
        if question is None:
            return _write_refusal("COPY of a table") if statement.first == "copy" else statement.text
        try:
            parameters, columns = await self._describe_question(question)
            if parameters:
                return _write_refusal("a parameter outside a prepared statement")
            written = await self._write_answer(Prepared(question, [], columns), [])
        except Failed:
            await self._end_series()
            return None
        await self._end_series()
        for notice in self._notices:
            self.writer.write(notice)
        self._notices.clear()
        return written

    async def _describe_question(self, question: ProtectedQuestion) -> tuple[list[int], list[tuple[str, int]]]:
        parse = _close(b"S", OURS) + pack_parse(OURS, question.sql)
        responses = await self._ask_shadow([parse, pack_message(b"D", b"S" + OURS + b"\0")], 3)
        columns = next((split_columns(answer) for what, answer in responses if what == b"T"), [])
        counts = [unpack("!h", answer, 0) for what, answer in responses if what == b"t"]
        return [0] * sum(counts), columns

    async def _end_series(self) -> None:
        """Sync of our own, whose end the client does not see."""
        self.shadow_writer.write(pack_message(b"S"))
        while True:
            what, answer = await self._read_shadow()
            if what == b"Z":
                self._end = answer
                return
            if what in BESIDE:
                self.writer.write(pack_message(what, answer))

    # --- the extended protocol ----------------------------------------------------------------------------------------

    async def _take_parse(self, body: bytes) -> None:
        name, at = split_text(body)
        sql, at = split_text(body, at)
        self._prepared.pop(name, None)
        if len(sql) > MOST_SQL:
            await self._relay(b"P", name + b"\0" + _TOO_LONG.encode() + b"\0" + body[at:])
            return
        statements = split_statements(sql.decode("utf-8", "replace"))
        if len(statements) != 1:  # none, or an error of PostgreSQL's own
            await self._relay(b"P", body)
            return
        (statement,) = statements
        question = find_question(statement) if statement.names_any(self._protected) else None
        if statement.first not in RELAYED or (question is None and is_other_copy(statement)):
            await self._relay(b"P", name + b"\0" + _write_refusal(statement.first).encode() + b"\0" + body[at:])
            return
        if question is None:
            await self._relay(b"P", body)
            return
        parameters, columns = await self._describe(name, pack_message(b"P", body))
        if question.purpose in (Purpose.COPY, Purpose.CURSOR):
            _, columns = await self._describe_question(question)
        elif question.purpose is Purpose.EXPLAIN:
            _, inner = await self._describe_question(question)
            columns = inner
        if len(self._prepared) >= MOST_PREPARED:
            self._prepared.pop(next(iter(self._prepared)))  # the oldest: whoever executes it has no right in the shadow
        self._prepared[name] = Prepared(question, parameters, columns)
        self.writer.write(pack_message(b"1"))

    async def _take_bind(self, body: bytes) -> None:
        portal, at = split_text(body)
        name, at = split_text(body, at)
        self._portals.pop(portal, None)
        prepared = self._prepared.get(name)
        if prepared is None:
            await self._relay(b"B", body)
            return
        begin = at
        at += 2 + 2 * max(unpack("!h", body, at), 0)
        formats = body[begin:at]
        raw, at = split_values(body, at)
        if len(raw) != len(prepared.parameters):
            await self._relay(b"B", body)  # the shadow words the error
            return
        values = await self._read_values(prepared, raw, formats)
        await self._fill(portal, await self._write_guard(prepared), body[at:])
        if len(self._portals) >= MOST_PREPARED:
            self._portals.pop(next(iter(self._portals)))  # the oldest: it ends in an error
        self._portals[portal] = Portal(prepared, values, body[at:])
        self.writer.write(pack_message(b"2"))

    async def _read_values(self, prepared: Prepared, raw: list[bytes | None], formats: bytes) -> list[str | None]:
        """Parameters as text, in whatever format they came: the shadow reads them."""
        if not raw:
            return []
        written = [write_parameter(at, kind) for at, kind in enumerate(prepared.parameters, 1)]
        (row,) = await self._read_rows(f"SELECT {', '.join(written)}", prepared.parameters, raw, formats)
        return [None if value is None else value.decode() for value in row]

    async def _write_guard(self, prepared: Prepared) -> str:
        """What stands in a portal until it is executed: its columns, and an error for whoever reads them otherwise."""
        named = [(name, await self._name_type(kind)) for name, kind in prepared.columns]
        if prepared.question.purpose is Purpose.EXPLAIN:
            named = PLAN
        return f"{prepared.question.before}{write_guard(named)}{prepared.question.after}"

    async def _fill(self, portal: bytes, sql: str, results: bytes) -> None:
        """Put a statement of ours into the client's portal."""
        own = OURS + b"_answer"
        messages = [_close(b"P", portal), _close(b"S", own), pack_parse(own, sql)]
        await self._ask_shadow([*messages, pack_bind(portal, own, [], results=results)], 4)

    async def _take_execute(self, body: bytes) -> None:
        name, _ = split_text(body)
        portal = self._portals.pop(name, None)
        if portal is not None:
            written = await self._write_answer(portal.prepared, portal.values)
            plain = written.startswith("SELECT keyhole.deny")
            await self._fill(name, written, b"\0\0" if plain else portal.results)
            for notice in self._notices:
                self.writer.write(notice)
            self._notices.clear()
        await self._relay(b"E", body)


def _close(kind: bytes, name: bytes) -> bytes:
    return pack_message(b"C", kind + name + b"\0")


def _write_lines(lines: list[str]) -> str:
    return write_rows(PLAN, [[line] for line in lines])


def _write_problem(problem: Problem) -> str:
    hint = "" if problem.instead is None else f"Try instead: {problem.instead}"
    return write_denial(problem.row.sqlstate, problem.detail, hint)


def _write_refusal(what: str) -> str:
    return write_denial("0A000", f"{what.upper() or 'this'} is not answered here: ask one SELECT", "")


def _describe_price(checked: CheckedQuestion) -> str:
    return "it would be answered" + (f" for {float(checked.cost):.3g} {checked.unit}" if checked.cost else "")


def _describe_answer(outcome: AnsweredQuestion, kinds: list[int]) -> list[str]:
    """Beside a noisy answer: how far it may be off, and what is left."""
    if outcome.exact or outcome.bars is None:
        return list(outcome.notes)
    rounded = [0.5 if kind in WHOLE_TYPES else 0.0 for kind in kinds]
    pairs = ((bar, more) for row in outcome.bars for bar, more in zip(row, rounded, strict=False))
    bars = [float(bar) + more for bar, more in pairs if isinstance(bar, int | float | Decimal | Fraction)]
    texts = []
    if bars:
        sure = "" if outcome.beta is None else f" (right {100 * (1 - outcome.beta):.4g} times in 100)"
        texts.append(f"answers with noise: error at most ±{max(bars):.4g}{sure}")
    if outcome.cost is not None:
        left = "" if outcome.left is None else f"; {float(outcome.left):.3g} left"
        texts.append(f"it cost {float(outcome.cost):.3g} {outcome.unit or ''}{left}")
    return [*texts, *outcome.notes]
