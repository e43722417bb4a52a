"""The picture of the README: six sample sets of the default run in the main figure.

`make numbers` draws it from `results`, or from the folder that RESULTS names; without a finished
run it stays as it is.
"""

import os
from pathlib import Path

from beyond_perplexity.figures import draw_figure
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.style import save
from beyond_perplexity.library.results_folder import load_results

ROOT = Path(__file__).resolve().parents[2]
TRANSFORMER = [f"transformer/{decoding}" for decoding in ("ancestral", "nucleus", "beam")]
SOURCES = ["trigram/ancestral", "lstm/ancestral", "lstm/beam", *TRANSFORMER]

if __name__ == "__main__":
    folder = Path(os.environ.get("RESULTS", ROOT / "results"))
    if (folder / "report.html").exists():
        measures = load_results(folder).tendencies
        shown = {"measures": measures[measures["source"].isin(SOURCES)]}
        labels = Labels(models=["trigram", "lstm", "transformer"])
        save(draw_figure("tendencies/main", shown, labels), [ROOT / "docs/images/distances.svg"])
