"""The page loads nothing and runs its own scripts only."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

import pytest

from mahala.report.page import Section, chart, code, facts, page
from report.cases import Page


def made(data=None):
    return page("title", "<header></header>", [Section("one", "<p>", "note", data or {}), Section("two", "")])


def test_only_the_scripts_of_the_page_may_run():
    text = made()
    policy = re.search('Content-Security-Policy" content="(.*?)"', text)[1]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-")
    assert "unsafe-eval" not in policy
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    hashes = [b64encode(sha256(script.encode()).digest()).decode() for script in scripts]
    assert re.findall("'sha256-(.*?)'", policy) == hashes
    assert len(hashes) == 3


def test_nothing_is_loaded():
    text = made()
    for tag, attributes in Page(text).elements:
        assert tag not in ("iframe", "object", "embed", "base", "form", "img")
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    style = re.search("<style>(.*?)</style>", text, re.DOTALL)[1]
    assert "url(" not in style
    assert "@import" not in style


def test_libraries_keep_their_licences():
    text = made()
    assert "https://d3js.org v7.9.0 Copyright 2010-2023 Mike Bostock" in text
    assert "@observablehq/plot v0.6.17 Copyright 2020-2025 Observable, Inc." in text


def test_data_cannot_end_its_element():
    text = made({"x": "</script><!--<script>&"})
    assert text.count("</script") == 4
    assert r"\u003c/script\u003e\u003c!--" in text
    with pytest.raises(ValueError):
        made({"x": float("nan")})


def test_texts_are_escaped():
    text = page("<t>", "", [chart("<s>", "x", {}, "<n>")]) + code(["<c>\n<d>"]) + facts({"<k>": "<v>"})
    for mark in "tsncdkv":
        assert f"<{mark}>" not in text.replace("<s></s>", "")
        assert f"&lt;{mark}&gt;" in text
