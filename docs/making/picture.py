"""Pictures of pages: six sample sets of the default run, and the bounds of its masked model.

`make numbers` draws it from `results`, or from the folder that RESULTS names; without a finished
run it stays as it is.
"""

import os
from pathlib import Path

from beyond_perplexity.figures import draw_figure
from beyond_perplexity.figures.labels import Labels
from beyond_perplexity.figures.style import save
from beyond_perplexity.importance.estimator import STRICT
from beyond_perplexity.library.results_folder import load_results

ROOT = Path(__file__).resolve().parents[2]
IMAGES, MASKED = ROOT / "docs/images", "masked-diffusion"
TRANSFORMER = [f"transformer/{decoding}" for decoding in ("ancestral", "nucleus", "beam")]
SOURCES = ["trigram/ancestral", "lstm/ancestral", "lstm/beam", *TRANSFORMER]

if __name__ == "__main__":
    folder = Path(os.environ.get("RESULTS", ROOT / "results"))
    if (folder / "report.html").exists():
        measures = load_results(folder).tendencies
        shown = {"measures": measures[measures["source"].isin(SOURCES)]}
        labels = Labels(models=["trigram", "lstm", "transformer"])
        save(draw_figure("tendencies/main", shown, labels), [IMAGES / "distances.svg"])
        held = load_results(folder)
        shown = {"estimates": held.estimates, "gaps": held.estimate_gaps}
        shown = {k: table[table["model"] == MASKED] for k, table in shown.items()}
        shown["estimates"] = shown["estimates"][shown["estimates"]["bound"] != STRICT]
        labels = Labels(titles={MASKED: "Masked diffusion", f"{MASKED}-orders": "orders"})
        save(draw_figure("importance/figure_bounds", shown, labels), [IMAGES / "orders.svg"])
