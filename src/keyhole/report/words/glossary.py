"""The words that the output uses, each explained in a few sentences that need no other word of the trade."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from keyhole.errors import ConfigError

# word: what it means. Its page in docs/, if there is one, is in PAGES; other forms of a word are in OTHERS.
WORDS: Mapping[str, str] = {
    "accuracy": "How wrong a noisy answer may be: a share of the number of people (0.01: one in a hundred), or, "
    "with neighbours = add-remove, a number of people. The more accurate, the dearer.",
    "alpha": "The error bar of a noisy answer as a share of the number of people; see accuracy.",
    "answer": "What a statement returned. An answer that is rounded or noisy is used as the range it stands for.",
    "atom": "People whom no statement of the log tells apart: everybody in an atom is counted by the same "
    "statements, with the same weight. An atom of one person is a person whom the questions can point at. Many "
    "atoms mean detailed questions; they are the columns of the equations that the answers give.",
    "audited": "Answers are exact, and given only if they expose nobody together with everything answered before.",
    "baseline": "A former verdict: with --baseline only people who are newly exposed count for the exit code.",
    "beta": "The chance that an error bar is missed: 0.05 is one answer in twenty.",
    "book": "One file with everything that was asked, answered, published and paid, written before it is shown. "
    "Each entry is bound to the one before it, so nothing can be taken out unseen.",
    "bound": "A smallest or largest value that everybody may know of a column (min and max in keyhole.toml). With "
    "it, answers can give away ranges.",
    "budget": "How much may be given away about any one person, in all answers together. Noisy answers are paid "
    "from it; when it is spent, nothing more is answered.",
    "cell": "A place in a published table, or a part of the values that a private column may have.",
    "certificate": "What a proof needs besides its statements so that `keyhole verify` can replay it.",
    "complete": "A complete verdict covers everybody: whoever is not listed is shown to be open, by a theorem or "
    "by a second table with the same answers in which he has another value. Only then the exit code is 0.",
    "contradiction": "Answers that cannot all be true, or do not fit the data. From a contradiction anything "
    "follows, so no all-clear is given: find out which answer is wrong.",
    "delta": "A small chance, declared beforehand, that the promise of a noisy answer fails; 0 means never.",
    "denied": "The answer would expose somebody together with what was answered before. It was decided without "
    "looking at private values, so that the denial itself tells nothing.",
    "dialect": "The database system that the statements were written for (--dialect). The same text can mean "
    "different things in two systems.",
    "dimension": "A table of public facts about a value, such as the names of states by their codes.",
    "distinct": "Statements with different texts: a statement asked a hundred times is one of them.",
    "domain": "All values that a column may have, declared in keyhole.toml and not read off private data.",
    "entry": "One line of the book; its receipt is a digest that fixes it and everything before it.",
    "epoch": "A version of the data. What was answered about an earlier one still counts.",
    "epsilon": "The unit of the budget: with a cost of epsilon, no answer is more than e to the epsilon times as "
    "likely for any one person's value as for another value. 0.1 is little, 1 is usual, 10 hides almost nothing.",
    "error bar": "The answer is at most this far from the truth, except with probability beta.",
    "exact": "Without noise.",
    "exposed": "One value is left for this person: it follows from the answers, and the proof says how. It does "
    "not matter whether anybody has noticed yet.",
    "fact": "Something an attacker is assumed to know about single people or groups ([[facts]] in keyhole.toml).",
    "fingerprint": "A digest by which a statement or a finding is known again, without any value.",
    "first": "The statement that completed an exposure: before it, the proof did not hold.",
    "gaussian": "Noise drawn from the bell curve; see noise.",
    "group": "With --group-size: people whose total is determined, though none of them alone.",
    "hidden": "A column that nobody knows and nobody may ask about. It is not loaded.",
    "horizon": "How many questions a prepaid run is planned for.",
    "id": "The column, or columns, that name a person.",
    "if shown": "The proof needs a row that the statement may not have shown (a LIMIT cut the answer). It counts "
    "as inferred.",
    "inferred": "Something new is known of a person but not the value: some category is excluded, or (with "
    "--within) the range is narrow. The exit code is 1, as for exposed.",
    "insider": "Somebody in the table knows his own value and can take it off every sum. insiders = 1 protects "
    "against any one such person.",
    "judged": "The answer was used by at least one rule. A statement that was not judged may give away anything.",
    "kind": "What a column holds: integer, decimal, double, text, boolean, date or timestamp.",
    "laplace": "Noise that falls off evenly to both sides; see noise.",
    "ledger": "The part of the book that says what was paid.",
    "limit": "The search was ended (--time-limit, Ctrl-C, too many tables) before a second table was shown for this "
    "person: the range is proved, and may be wider than it has to be.",
    "mechanism": "A way of making noisy answers, such as laplace (each answer alone) or online-ic (many from one run).",
    "monitored": "Everything is answered, and the book says what an auditor would have denied.",
    "narrowed": "The range that follows from the answers and the declared bounds is smaller than the declared one.",
    "neighbours": "Which two tables may not be told apart by noisy answers: replace-one (one person has other "
    "values) or add-remove (one person is there or not).",
    "noise": "A random number added to an answer, large enough to hide any one person and small enough to be of use.",
    "noisy": "An answer with noise. It proves nothing about anybody by itself; many together can (keyhole attack).",
    "open": "At least two values are possible for this person: the answers do not tell which.",
    "outer": "The value surely lies in this range, which may be wider than it has to be.",
    "policy": "How questions are answered: audited, private or monitored.",
    "prior": "What is known before any answer: the declared range, step or values.",
    "private": "A column that nobody should learn, such as pay. As a policy: answers have noise and a price.",
    "promise": "What holds for the people who are not listed. 'Complete': nobody else is exposed. 'Sound, not "
    "complete': all that is listed is proved, and more may be exposed.",
    "proof": "How the value follows: statements added and taken away, such as Q1 - Q2 = Ann's pay. Whoever has "
    "the answers can redo it; `keyhole verify` does so on made-up values.",
    "public": "A column that anybody may know, such as age, sex or ZIP code.",
    "query": "One number that a statement asks for. A statement with GROUP BY or several aggregates has several: "
    "3.2 is the second part of statement 3.",
    "rank": "How many independent equations the answers make. As many as there are atoms: every atom's total is known.",
    "receipt": "A digest of an entry of the book and of everything before it.",
    "record": "A row of the table. A person may have several, if the id is repeated.",
    "refused": "The statement was not understood, or asks what is not decided here; the message says what to write.",
    "replay": "`keyhole verify` runs the statements of a proof on made-up private values: a right proof then "
    "gives the made-up value.",
    "residual": "How far the guesses of an attack are from explaining the answers; 0 means that they explain them all.",
    "rho": "Another unit of the budget (zCDP), in which many small costs add up to less; see epsilon.",
    "roster": "The public half of the table: who is there, without any private value.",
    "run": "Answers that are paid for together beforehand, at a fixed price (mechanism online-ic).",
    "singled out": "The public columns alone point to this one person. 'yes' means that a stranger can find him "
    "in the data without knowing his name.",
    "sound": "Everything that is said is proved. It does not say that everything was found; see complete.",
    "statement": "One SQL statement of the log, as it was written.",
    "step": "The grid of a column: values are multiples of it, such as 0.1. A range with one multiple is a value.",
    "suppressed": "A cell that is left empty on purpose when a table is published, so that nobody is seen in it.",
    "transcript": "A log with its answers, one JSON line a statement.",
    "unjudged": "No rule used the answer. It may give away anything, so there is no all-clear.",
    "waiver": "A finding that somebody looked at and signed off; it no longer counts for the exit code.",
    "witness": "A note, kept elsewhere, of the book's last entry: a book that was cut or exchanged does not match it.",
}

PAGES: Mapping[str, str] = {
    "atom": "rowspace.md",
    "book": "book.md",
    "budget": "defend.md",
    "dialect": "dialects.md",
    "epoch": "epochs.md",
    "epsilon": "defend.md",
    "exposed": "audit.md",
    "inferred": "inference.md",
    "insider": "online.md",
    "judged": "reading.md",
    "narrowed": "inference.md",
    "proof": "verify.md",
    "rank": "rowspace.md",
    "refused": "sql.md",
    "residual": "attack.md",
}

OTHERS: Mapping[str, str] = {
    "add-remove": "neighbours",
    "allow": "audited",
    "answered": "answer",
    "bar": "error bar",
    "deny": "denied",
    "determined": "exposed",
    "max": "bound",
    "min": "bound",
    "narrowed down": "inferred",
    "not judged": "unjudged",
    "replace-one": "neighbours",
    "values": "domain",
    "width": "domain",
    "within": "inferred",
    "zcdp": "rho",
}


def found(word: str) -> str:
    """The entry that explains a word, in whichever form it is asked for.

    >>> found("Atoms"), found("replace-one"), found("queries"), found("singled_out")
    ('atom', 'neighbours', 'query', 'singled out')
    >>> found("atmo")
    Traceback (most recent call last):
    keyhole.errors.ConfigError: 'atmo' is not explained here; did you mean 'atom'? `keyhole explain` lists all words
    """
    plain = " ".join(word.casefold().replace("_", " ").split())
    for form in (plain, plain.removesuffix("s"), plain.removesuffix("ies") + "y"):
        entry = OTHERS.get(form, form)
        if entry in WORDS:
            return entry
    near = difflib.get_close_matches(plain, [*WORDS, *OTHERS], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    raise ConfigError(f"{word!r} is not explained here{hint} `keyhole explain` lists all words")
