"""The command and the function of the audit: what they read, what they say, how they end.

Oracles: a sound model, one whose tokenizer changes texts, and what was asked for. Needs torch and
transformers.
"""

from __future__ import annotations

import json

import pandas as pd
import pyarrow as pa
import pytest
from tokenizers import normalizers
from transformers import AutoTokenizer

import beyond_perplexity
from beyond_perplexity.auditing.checks import CHECKS
from beyond_perplexity.auditing.rosetta_programs import PROGRAMS
from beyond_perplexity.commands.audit import main
from beyond_perplexity.errors import InputError
from beyond_perplexity.models.kneser_ney import KneserNey
from beyond_perplexity.models.registry import save_model
from beyond_perplexity.vocabulary import ClosedVocabulary
from tests.unit.huggingface_models import make_gpt2

TEXTS = ["The cat sat on the mat", "a dog <b>barks</b>", "the cat and the dog", "a mat"] * 3


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counted")
    texts = [text.lower() for text in TEXTS]
    vocabulary = ClosedVocabulary.build([texts], minimum_count=4)
    model = KneserNey.fit([vocabulary.encode(texts)], vocabulary.size, {"order": 2})
    save_model(folder, model, vocabulary, {"preprocessing": {}})
    return folder


@pytest.fixture(scope="module")
def uncased(tmp_path_factory):
    """Save a GPT-2 whose tokenizer makes letters small."""
    folder = tmp_path_factory.mktemp("uncased")
    make_gpt2(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder).backend_tokenizer
    tokenizer.normalizer = normalizers.Lowercase()
    (folder / "tokenizer.json").write_text(tokenizer.to_str())
    return folder


def test_a_sound_model_ends_well(counted, text, capsys):
    main(["--model", str(counted), "--text", text])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"no alarm in {len(CHECKS)} checks"
    assert [line[6:20].strip() for line in lines[:-1]] == list(CHECKS)


def test_an_alarm_ends_with_status_1_and_its_evidence(uncased, text, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--model", str(uncased), "--text", text, "--json", "--check", "round trip", "end"])
    assert ended.value.code == 1
    found = json.loads(capsys.readouterr().out)
    assert found["summary"]["alarms"] == ["round trip"]
    (row,) = [row for row in found["table"] if not row["sound"]]
    assert row["detail"] == "'The' comes back as 'the'"
    assert row["worst"] >= 1
    assert row["tolerance"] == 0
    assert row["explanation"] == CHECKS["round trip"].explanation


def test_the_numbers_of_other_programs_stand_beside_ours(counted, text, capsys):
    main(["--model", str(counted), "--text", text, "--check", "numbers", "--rosetta"])
    out = capsys.readouterr().out
    assert all(f"\n{name}: " in out for name in PROGRAMS)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--model", "/nowhere"], "/nowhere: no such folder; give a model"),
        (["--check", "colour"], "there is no 'colour'; the checks are: numbers"),
        (["--documents", "0"], "--documents: is 0, expected at least 1"),
        (["--text", "/nowhere"], "/nowhere: "),
    ],
)
def test_what_cannot_be_used_is_said_in_a_line(flags, message, counted, text):
    with pytest.raises(InputError, match=r"colour|nowhere|documents") as raised:
        main(["--model", str(counted), "--text", text, *flags])
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_an_empty_text_is_refused(counted, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n \n")
    with pytest.raises(InputError, match="has no document to audit with"):
        main(["--model", str(counted), "--text", str(path)])


def test_the_function_takes_texts_in_any_form(counted, text):
    names = ["normalization", "likelihood"]
    forms = [text, TEXTS, iter(TEXTS), pd.DataFrame({"text": TEXTS}), pa.table({"text": TEXTS})]
    found = [beyond_perplexity.audit(counted, form, check=names, rosetta=True) for form in forms]
    assert all(one.sound for one in found)
    assert len({one.to_json().replace(str(text), "texts") for one in found}) == 1
    first = found[0]
    assert first.table["check"].tolist() == names
    assert set(first.table_of("rosetta")["program"]) == set(PROGRAMS)
    assert first.figures == ("deviations",)
    ticks = [tick.get_text() for tick in first.figure("deviations").axes[0].get_yticklabels()]
    assert ticks == names


def test_the_function_takes_a_model_in_memory(counted):
    vocabulary = ClosedVocabulary.build([TEXTS])
    model = KneserNey.fit([vocabulary.encode(TEXTS)], vocabulary.size)
    assert beyond_perplexity.audit(model, TEXTS, vocabulary=vocabulary).sound
    with pytest.raises(InputError, match="vocabulary: is missing"):
        beyond_perplexity.audit(model, TEXTS)


def test_an_audit_does_not_depend_on_what_was_drawn_before(counted, text):
    one, two = (beyond_perplexity.audit(counted, text, seed=3).to_json() for _ in range(2))
    assert one == two


def test_the_field_of_texts_in_memory_is_the_one_that_is_named(counted):
    """Oracle: the same texts as a list."""
    frame = pd.DataFrame({"body": TEXTS})
    found = beyond_perplexity.audit(counted, frame, field="body", check=["numbers"])
    alone = beyond_perplexity.audit(counted, TEXTS, check=["numbers"])
    assert found.table.equals(alone.table)
