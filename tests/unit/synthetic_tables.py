"""Tables of measures and curves as the workflow makes them, for tests of figures and tables."""

import json
import re
from itertools import combinations

import numpy as np
import pandas as pd
from matplotlib.font_manager import findfont, get_font

from beyond_perplexity import verdicts
from beyond_perplexity.corpus.distortions import EVENT_PARTS
from beyond_perplexity.figures.labels import REFERENCE, is_reference
from beyond_perplexity.schemas import contrastive, perplexity, tendencies
from beyond_perplexity.tendencies.definitions import OF_FAMILIES
from scripts import tabulate

TWO_SAMPLE = ("length", "stop_words", "symbols")
DISTANCES = ["ks_empirical", "ks", "tvd", "max_difference"]
MEANS = {"length": 57.45, "stop_words": 0.284, "symbols": 0.149}


def sources_of(models, decodings):
    return [f"{model}/{decoding}" for model in models for decoding in decodings]


# How far human text is from itself, by measure, and how far a sample set is for each unit of `far`.
BASELINES = {
    ("rank_frequency", "ks_empirical"): (0.02, 0.2),
    ("type_token_unigrams", "ks_empirical"): (0.5, 0.4),
    ("type_token_bigrams", "ks_empirical"): (0.46, 0.4),
    ("unigram", "tvd"): (0.22, 0.5),
    ("unigram", "tvd_1000"): (0.11, 0.5),
    ("unigram", "max_difference"): (0.004, 0.1),
    ("unigram", "max_difference_known"): (0.004, 0.05),
    **{(tendency, "ks"): (0.05, 1.0) for tendency in TWO_SAMPLE},
    **{(name, row.distance): (0.03, 0.5) for name, row in OF_FAMILIES.items()},
}
TEXT_ROWS = {"unknown_share": 0.05, "unknown_share_reference": 0.043, "unfinished_share": 0.2}
TEXT_ROWS |= {"duplicate_share": 0.0125, "duplicate_share_reference": 0.0}
TEXT_ROWS |= {"training_8grams": 0.31, "training_8grams_reference": 0.0102}
TEXT_ROWS |= {"cut_share": 0.0, "cut_share_reference": 0.01}
TEXT_ROWS |= {"fragment_share": 0.06, "fragment_share_reference": 0.05}
WITHHELD_NOTE = "the reference has 12.3 effective groups, fewer than 20"
WORD_NOTE = 'word "the": 0.0612 here, 0.0498 in the reference'


class MeasuredRows:
    """Rows of the schema ``tendencies`` with plausible intervals, baselines, adjusted p-values."""

    def __init__(self):
        self.rows: list[dict[str, object]] = []

    def add(self, source, tendency, measure, value, p=None):
        half, tested = abs(value) * 0.05, p is not None
        baseline = BASELINES.get((tendency, measure), (np.nan, 0))[0]
        distance = measure.startswith(("ks", "max"))
        raw = source.startswith("external") or "bpe" in source
        known = {"source": source, "tendency": tendency, "measure": measure, "value": value}
        known |= {"low": np.nan if distance else value - half, "high": value + half}
        known |= {"p_value": p if tested else np.nan, "n_reference": 20_000, "n_samples": 20_000}
        known |= {"p_adjusted": min(1.0, 8 * p) if tested else np.nan, "baseline": baseline}
        known |= {"excess": value - baseline, "groups_reference": None}
        known |= {"note": WORD_NOTE if measure == "max_difference" else None}
        known |= {"verdict": verdicts.DIFFERS if tested else verdicts.UNTESTED}
        known |= dict.fromkeys(("reason", "permuted", "family", "draws"))
        known |= {"p_value_law": 0.001 if measure.startswith("ks_zipf") else np.nan}
        known |= {"baseline_low": baseline * 0.8, "baseline_high": baseline * 1.2}
        known |= {"value_all": np.nan}
        self.rows.append(known | {"vocabulary": "raw" if raw else "words", "halves": None})

    def table(self):
        table = pd.DataFrame(self.rows)
        counts = ("groups_reference", "family", "draws")
        return table.assign(**{name: table[name].astype("Int64") for name in counts})


def make_measures(sources, seed=1):
    """Make a table of schema ``tendencies`` with every measure of every source."""
    random = np.random.default_rng(seed)
    rows = MeasuredRows()
    for source in sources:
        far = 0.4 * random.random() ** 3
        p = float(random.choice([1 / 2000, 0.004, 0.4]))
        for (tendency, measure), (baseline, slope) in BASELINES.items():
            rows.add(source, tendency, measure, baseline + slope * (far - 0.004), p)
        _add_laws(rows, source, far)
        for tendency in TWO_SAMPLE:
            mean = MEANS[tendency]
            rows.add(source, tendency, "mean", mean * (1 - far))
            rows.add(source, tendency, "mean_reference", mean)
            rows.add(source, tendency, "mean_difference", -mean * far, p)
        for measure, value in (("types", 61_234.0), ("tokens", 1_234_567.0)):
            rows.add(source, "vocabulary", measure, round(value * (1 - far)))
            rows.add(source, "vocabulary", f"{measure}_reference", value)
        rows.add(source, "vocabulary", "novel_types", far / 3)
        rows.add(source, "vocabulary", "coverage", 1 - far)
        for measure, value in TEXT_ROWS.items():
            rows.add(source, "text", measure, value)
    return rows.table()


def _add_laws(rows, source, far):
    laws = {"zipf_s": 1.2 + far / 30, "zipf_s_reference": 1.1997}
    laws |= {"zipf_s_split": 1.08 + far / 30, "zipf_s_split_reference": 1.0794}
    laws |= {"zipf_ranks": 2345, "zipf_ranks_reference": 2456}
    laws |= {"ks_zipf_model": 0.15 + far / 20, "ks_zipf_reference": 0.145 + far / 20}
    for measure, value in laws.items():
        rows.add(source, "rank_frequency", measure, value)
    growth = ("type_token_unigrams", 0.841, 1.39), ("type_token_bigrams", 0.966, 1.099)
    for tendency, beta, alpha in growth:
        rows.add(source, tendency, "heaps_beta", beta + far / 20)
        rows.add(source, tendency, "heaps_alpha", alpha)
        rows.add(source, tendency, "heaps_beta_reference", beta)
        rows.add(source, tendency, "heaps_alpha_reference", alpha)


def stated(why):
    """Write a reason in words of one's own."""
    return verdicts.reason("not_counted", why=why)


def withhold(measures, tendency, measure, reason):
    """Take a verdict back, as where there are too few groups."""
    chosen = (measures["tendency"] == tendency) & (measures["measure"] == measure)
    changed = measures.copy()
    changed.loc[chosen, ["p_value", "p_adjusted"]] = np.nan
    changed.loc[chosen, "reason"] = stated(reason)
    return changed


def set_distance(measures, tendency, measure, value, source=None):
    chosen = (measures["tendency"] == tendency) & (measures["measure"] == measure)
    if source is not None:
        chosen &= measures["source"] == source
    assert chosen.any()
    changed = measures.copy()
    changed.loc[chosen, "value"] = value
    changed.loc[chosen, "excess"] = value - changed.loc[chosen, "baseline"]
    return changed


def make_curves(sources, seed=1, references=(REFERENCE,)):
    """Make a table of schema ``curves`` with every curve of every source and of the references."""
    random = np.random.default_rng(seed)
    parts = []
    for source in [*references, *sources]:
        human = is_reference(source)
        shift = -0.02 * references.index(source) if human else random.normal() * 0.03
        parts += _curves_of(source, shift, random)
    return pd.concat(parts, ignore_index=True)[tendencies.CURVES.names]


def _part(source, curve, x, y, band=None):
    low, high = (np.nan, np.nan) if band is None else (y - band, y + band)
    columns = {"source": source, "curve": curve, "x": x, "y": y, "low": low, "high": high, "n": 100}
    return pd.DataFrame(columns)


def _density(x, mean, width):
    y = np.exp(-(((x - mean) / width) ** 2) / 2)
    return y / (y.sum() * (x[1] - x[0]))


def _curves_of(source, shift, random):
    lengths = np.arange(1.0, 501)
    ranks = np.arange(1.0, 10_001)
    fractions = np.linspace(0.01, 0.99, 50)
    levels = np.array([0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99])
    zipf = ranks**-1.2 / 5.6
    types = 1.39 * lengths ** (0.841 + shift)
    parts = [
        _part(source, "type_token_unigrams", lengths, types, np.sqrt(types)),
        _part(source, "type_token_bigrams", lengths, 1.1 * lengths ** (0.966 + shift)),
        _part(source, "rank_frequency", ranks, zipf * (1 + shift * np.log(ranks))),
        _part(source, "zipf_fit", ranks, zipf * 0.9),
        _part(source, "stop_words_density", fractions, _density(fractions, 0.284 + shift, 0.09)),
        _part(source, "symbols_density", fractions, _density(fractions, 0.149 + shift, 0.06)),
        _part(source, "length_quantiles", levels, 57 * np.exp(levels * 2.6 - 1.5 + shift)),
        _part(source, "length_mean", np.array([0.0]), np.array([57.45 * (1 + shift)])),
    ]
    means, sizes = np.geomspace(0.01, 3, 200), np.arange(1.0, 33)
    spreads = np.exp(random.normal(size=200) * 0.1) * means ** (0.55 + shift)
    parts += [
        _part(source, "taylor", means, spreads),
        _part(source, "taylor_fit", means, means ** (0.55 + shift)),
        _part(source, "taylor_shuffled", means, means ** (0.52 + shift)),
        _part(source, "recurrence", 2.0 ** np.arange(8), 0.01 * 0.5 ** np.arange(8) + shift, 0.002),
        _part(source, "novelty", sizes, 1 - np.exp((0.2 + shift) * (1 - sizes)), 0.01),
    ]
    if not is_reference(source):
        for curve, level in (("model", 0.1), ("reference", 0.2), ("empirical", 0.25)):
            noise = random.normal(size=500) * 0.02
            y = np.clip(level + abs(shift) * 5 * lengths / 500 + noise, 0, 1)
            parts.append(_part(source, f"ks_types_{curve}", lengths, y))
    return parts


def make_training(models):
    """Make a table of schema ``training`` with the column ``model`` beside."""
    steps = np.arange(0, 400)
    parts = []
    for place, model in enumerate(models):
        for split, offset in (("train", 0.0), ("valid", 0.3)):
            kept = steps if split == "train" else steps[::40]
            loss = 4.2 + place * 0.2 + offset + 4 * np.exp(-kept / 60)
            columns = {"step": kept, "epoch": kept / 40, "split": split, "loss": loss}
            columns |= {"perplexity": np.exp(loss), "contrastive_entropy": np.nan}
            columns |= {"learning_rate": 1e-3, "seconds": kept * 0.1, "phase": "fit"}
            columns["model"] = model
            parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def make_sample_size(sources, seed=1):
    """Make a table of schema ``sample_size``: the measures of `make_measures` with noise."""
    random = np.random.default_rng(seed)
    measures = make_measures(sources, seed)
    parts = []
    for n in (100, 300, 1000, 3000, 10_000):
        noise = random.normal(size=len(measures)) / np.sqrt(n)
        value = measures["value"] * (1 + noise) + 1 / np.sqrt(n)
        width = measures["value"].abs() / np.sqrt(n)
        p_value = np.maximum(1 / 400, measures["p_value"] ** (n / 3000))
        columns = {"n": n, "subsets": 5, "value": value, "low": value - width, "p_value": p_value}
        columns |= {"high": value + width, "p_low": p_value / 2, "p_high": np.sqrt(p_value)}
        baseline = measures["measure"].isin(DISTANCES).map({True: 0.6 / np.sqrt(n)})
        columns |= {"baseline": baseline, "baseline_low": 0.7 * baseline}
        columns |= {"baseline_high": 1.6 * baseline}
        parts.append(measures[["source", "tendency", "measure"]].assign(**columns))
    return pd.concat(parts, ignore_index=True)[tendencies.SAMPLE_SIZE.names]


def make_sensitivity():
    """Make a table of schema ``sensitivity`` in which every shift falls with the root of n."""
    tests = [("rank_frequency", "ks_empirical", "Zipf's s", 1.2)]
    tests += [(f"type_token_{k}s", "ks_empirical", "types", 1.0) for k in ("unigram", "bigram")]
    tests += [("unigram", "tvd", "distance", 0.8), ("unigram", "max_difference", "distance", 0.1)]
    for tendency in TWO_SAMPLE:
        unit = "tokens" if tendency == "length" else "share"
        tests += [(tendency, m, unit, MEANS[tendency]) for m in ("ks", "mean_difference")]
    rows = [
        (
            "reference",
            tendency,
            measure,
            unit,
            n,
            base * share,
            share,
            0.005,
            0.8,
            False,
            0.77,
            None,
        )
        for place, (tendency, measure, unit, base) in enumerate(tests)
        for n in (1000, 10_000, 100_000, 1_000_000)
        for share in [(1 + place) / np.sqrt(n) / 4]
    ]
    return pd.DataFrame(rows, columns=tendencies.SENSITIVITY.names)


# Markup to TeX and to matplotlib, which fails on it, and no name that a table would refuse.
HOSTILE = r"$x^$ _{ \alpha 100%"


def check_drawn_as_it_stands(svg, *, at_least):
    """Check that a figure draws every dollar of its texts but those of its own mathematics.

    Matplotlib writes each line of text as a comment before its glyphs, named by font and place.
    """
    lines = re.findall(r"<!-- (.*?) -->", svg, flags=re.DOTALL)
    given = [line for line in lines if not re.match(r"\$(D_|H_C|\\mathdefault)", line)]
    assert sum("x^$" in line for line in given) >= at_least
    drawn = sum(
        svg.count(f'"#{font.replace(" ", "")}-{get_font(findfont(font)).get_char_index(36):x}"')
        for font in ("DejaVu Sans", "DejaVu Sans Mono")
    )
    assert drawn == sum(line.count("$") for line in given)


def make_parts(models):
    """Make the parts of the differences of models, of two splits."""
    rows = []
    for first, second in combinations(models, 2):
        pair = {"scored_text": "cleaned", "first": first, "second": second, "documents": 40}
        pair |= {"groups": 40, "first_bits": 1.0, "note": ""}
        tested = {"low": -0.1, "high": 0.3, "within_low": -0.2, "within_high": 0.4}
        tested |= {"p_value": 0.01, "p_adjusted": 0.02}
        for split, part, size, value in (
            *(("whole", "", 100, 0.1), ("kind", "word", 80, 0.3), ("kind", "number", 20, -0.2)),
            *(("position", "bytes 1 to 64", 90, 0.2), ("position", "bytes from 65 on", 10, -0.1)),
            ("document", "a: $x$ <b>", 100, 0.1),
        ):
            own = {"split": split, "part": part, "bytes": size, "value": value, "within": value}
            own |= {} if split == "document" or size == 10 else tested
            rows.append(pair | own | {"second_bits": 1.0 - value})
    return pd.DataFrame(rows)


def make_differences(models):
    """Make a table of schema ``perplexity_differences``: each model, and each pair of them."""
    own = [(first, None, 2.0 + 0.1 * place) for place, first in enumerate(models)]
    place = models.index
    pairs = [(a, b, 0.1 * (place(a) - place(b))) for a, b in combinations(models, 2)]
    tested = {"p_value": 0.001, "p_adjusted": 0.003, "detectable": 0.04, "power": 0.8}
    rows = [
        {"scored_text": "cleaned", "first": first, "second": second, "value": value}
        | {"low_by_document": value - 0.01, "high_by_document": value + 0.01}
        | {"low": value - 0.03, "high": value + 0.03, "documents": 60, "groups": 60}
        | {"groups_effective": 55.0, "open_vocabulary": True, "note": ""}
        | (dict.fromkeys(tested) if second is None else tested)
        for first, second, value in [*own, *pairs]
    ]
    return pd.DataFrame(rows, columns=perplexity.PERPLEXITY_DIFFERENCES.names)


LEVELS = tuple(round(0.1 * step, 1) for step in range(11))


def _parts_of(row: dict[str, object]) -> pd.DataFrame | None:
    """Split H_C of a sentence: substitutions have .7 of it, the first part of them half of that."""
    if (row["measure"], row["unit"]) != ("contrastive_entropy", "sentence"):
        return None
    shares = [0.35, 0.25, 0.1, 0.1, 0.1, 0.1]
    held = {
        "substitution": 0.7,
        "transposition": 0.3,
        **dict(zip(EVENT_PARTS, shares, strict=True)),
    }
    parts = [
        {**row, "measure": "part", "event": name, "value": row["value"] * share, "words_hit": 1000}
        for name, share in held.items()
    ]
    return pd.DataFrame(parts)


def make_contrasts(models, unnormalized=(), levels=LEVELS):
    """Make a table of schema ``contrasts``: the later a model stands, the more H_C it has.

    A sentence has 20 words, and H_C grows with the root of the level.
    """
    rows = []
    for place, model in enumerate(models):
        scale = 3.0 + 0.1 * place
        for unit, words in (("word", 1), ("sentence", 20)):
            for level in levels:
                value = words * scale * np.sqrt(level)
                rows.append((model, unit, "contrastive_entropy", level, None, value, 0.05 * value))
                ratio = np.sqrt(level / 0.1)
                rows.append((model, unit, "ratio", level, 0.1, ratio, 0.02 * ratio))
            if unit == "sentence":
                shares = {x: 0.7 + 0.2 * x + 0.01 * place for x in levels if x}
                rows += [(model, unit, "accuracy", x, None, y, 0.02) for x, y in shares.items()]
            if model not in unnormalized:
                value = words * (6.0 - 0.1 * place)
                rows.append((model, unit, "cross_entropy", None, None, value, 0.1 * words))
    names = ["model", "unit", "measure", "level", "base_level", "value", "half"]
    table = pd.DataFrame(rows, columns=names).assign(event=None, words_hit=None)
    table = pd.concat([table, *map(_parts_of, table.query("level == 0.3").to_dict("records"))])
    table = table.reset_index(drop=True)
    drawn, half = table["measure"] != "cross_entropy", table["half"]
    counts = {"words": 10_000, "sentences": 500, "groups": 120, "groups_effective": 98.5}
    paired = table["measure"] == "accuracy"
    counts |= {name: paired.map({True: n}) for name, n in {"pairs": 4900, "undecided": 50}.items()}
    value, draws = table["value"], drawn.map({True: 10, False: 1})
    made = {"low": value - half, "high": value + half, "deviation": (value * 0.01).where(drawn)}
    made |= {"draws": draws, "sentence_level": table["model"].isin(unnormalized), "note": ""}
    whole = table.assign(**made, **counts)[contrastive.CONTRASTS.names]
    return whole.astype({"level": float, "base_level": float})


def make_contrast_differences(contrasts):
    """Make a table of schema ``contrast_differences``: neighbours alike, others distinguished."""
    rows = []
    models = list(dict.fromkeys(contrasts["model"]))
    keys = ["model", "unit", "measure", "level"]
    own = contrasts[~contrasts["measure"].isin(["cross_entropy", "part"])].set_index(keys)
    sentence_level = {model: bool(own.loc[model]["sentence_level"].any()) for model in models}
    for first, second in combinations(models, 2):
        far = abs(models.index(first) - models.index(second)) > 1
        for (unit, measure, level), row in own.loc[first].iterrows():
            if unit == "word" and (sentence_level[first] or sentence_level[second]):
                continue
            value = row["value"] - own.loc[(second, unit, measure, level), "value"]
            p = (0.001 if far else 0.4) if measure != "ratio" else None
            known = {"first": first, "second": second, "unit": unit, "measure": measure}
            known |= {"level": level, "base_level": row["base_level"], "value": value}
            known |= {"low": value - 0.05, "high": value + 0.05, "p_value": p, "reading": None}
            if measure == "accuracy":
                known["reading"] = "lower" if far else "no difference found"
            if measure == "ratio":
                known |= {"low_adjusted": value - 0.08, "high_adjusted": value + 0.08}
            known |= {"p_adjusted": None if p is None else min(1.0, 3 * p)}
            rows.append(known | {"groups": 120, "note": ""})
    return pd.DataFrame(rows, columns=contrastive.CONTRAST_DIFFERENCES.names)


def make_pair_contrasts(models, phenomena):
    """Make a table of schema ``pair_contrasts`` with the name of the pairs beside."""
    rows = [
        {"model": model, "phenomenon": phenomenon, "pairs": 998, "identical": 2, "note": ""}
        | {"undecided": place, "accuracy": 0.6 + 0.02 * place, "per_word": 0.2}
        | {"accuracy_low": 0.57 + 0.02 * place, "accuracy_high": 0.63 + 0.02 * place}
        | {"contrastive_entropy": 1.5 + place, "low": 1.2 + place, "high": 1.8 + place}
        | {"length_difference": -0.25, "good_shorter": 0.31}
        for place, model in enumerate(models)
        for phenomenon in phenomena
    ]
    return pd.DataFrame(rows, columns=contrastive.PAIR_CONTRASTS.names).assign(source="blimp")


def make_partitions(models, longest=40):
    rows = [
        (m, "lstm", n, max(0, 40 - n), 9.0 * n, 9.0 * n + 0.1, 0.02 * n, 1000 / n, 0.4, 1000, "b")
        for m in models
        for n in range(1, longest + 1)
    ]
    return pd.DataFrame(rows, columns=contrastive.PARTITIONS.names)


def make_margin_training(models, epochs=8):
    """Make training curves with the contrastive entropy of both splits: both rise."""
    epoch = np.arange(1.0, epochs + 1)
    parts = []
    for place, model in enumerate(models):
        for split, factor in (("train", 1.0), ("valid", 0.8)):
            value = factor * (1 + place) * (1 - np.exp(-epoch / 3))
            columns = {"step": epoch * 10, "epoch": epoch, "split": split, "loss": 1 / value}
            columns |= {"perplexity": np.nan, "contrastive_entropy": value}
            columns |= {"learning_rate": 0.1, "seconds": epoch, "model": model}
            parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def sentence_description(size, distortion):
    """Return what ``model.json`` of a sentence RNN says of what the paper's rows are named for."""
    training = {} if distortion == 0.1 else {"distortion": distortion}  # which is the default
    config = {"architecture": {"size": size}}
    return {"family": "sentence-rnn", "config": config, "training": training}


def run_tabulate(monkeypatch, folder, table, given, *more):
    """Make a table of files in a folder by its command: CSV, LaTeX and HTML."""
    files = [folder / f"t.{end}" for end in ("csv", "tex", "html")]
    outputs = zip(("--csv", "--latex", "--html"), map(str, files), strict=True)
    asked = ["tabulate", "--table", table, "--inputs", json.dumps(given), *more]
    monkeypatch.setattr("sys.argv", [*asked, *(word for pair in outputs for word in pair)])
    tabulate.main()
    return files


def make_words(source, names, odds, verdict="differs"):
    """Make rows of words and phrases, all alike but for their names and log odds."""
    numbers = {"log_odds": odds, "low": np.array(odds) - 0.3, "high": np.array(odds) + 0.3}
    alike = {"document_share": 0.4, "document_share_reference": 0.1, "p_adjusted": 0.001}
    alike |= {"q_value": 0.01, "t": 6.0, "count": 40, "count_reference": 9, "words": 1}
    alike |= {"draws": 1999, "family": len(names), "example_1": "… a [b] c", "reason": None}
    alike |= {"least_documents": 10, "least_occurrences": 20, "verdict": verdict, "source": source}
    return pd.DataFrame({"ngram": names, **numbers}).assign(**alike, example_2=None)
