"""What a plan says of a file that is not there: its name, and nothing of the insides.

Needs Snakemake; starts no job. Oracle: the path that the test itself left out.
"""

from __future__ import annotations

import yaml


def test_a_missing_file_of_samples_is_named_and_nothing_else(checkout, tmp_path):
    config = yaml.safe_load((checkout.path / "configs" / "smoke.yaml").read_text())
    missing = {"path": f"{tmp_path}/nowhere.txt", "format": "text", "corpus": "wikipedia"}
    other = tmp_path / "config.yaml"
    other.write_text(yaml.safe_dump({**config, "external_samples": {"mine": missing}}))
    done = checkout.snakemake("--dry-run", f"--configfile={other}", "samples", check=False)
    printed = done.stdout
    assert done.returncode == 1
    assert missing["path"] in printed
    assert "Missing input files for rule import_samples" in printed
    assert "Traceback" not in printed
    assert "KeyError" not in printed
