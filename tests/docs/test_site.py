from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def test_reference_pages_are_what_the_code_says():
    command = [sys.executable, str(ROOT / "docs" / "make_reference.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_site_builds_without_a_warning(tmp_path, monkeypatch):
    pytest.importorskip("material")
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    # Read offline and by nobody else: no page asks another server for anything.
    home = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'(?:src|href)="https?://(?!squidfunk)[^"]*"', home) == []


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md"])
def test_links_to_files_of_the_repository_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    local = [link for link in LINK.findall(text) if "://" not in link]
    assert [link for link in local if not (ROOT / link).exists()] == []
