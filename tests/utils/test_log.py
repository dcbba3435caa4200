# SPDX-License-Identifier: Apache-2.0
import logging
import re

import pytest

from passl.utils.log import log_to_file, logger, set_up


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """Each test starts and ends with the logger of the main process and no file."""
    monkeypatch.delenv("PADDLE_TRAINER_ID", raising=False)
    handlers = list(logger.handlers)
    set_up()
    yield
    for handler in [h for h in logger.handlers if h not in handlers]:
        logger.removeHandler(handler)
        handler.close()
    monkeypatch.undo()
    set_up()


def test_the_main_process_prints_time_and_text(capsys):
    logger.info("%d images", 7)
    logger.debug("hidden")
    logger.warning("careful")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert re.fullmatch(r"\d\d:\d\d:\d\d 7 images", lines[0])
    assert lines[1].endswith(" warning: careful")


def test_other_processes_print_warnings_only_with_their_rank(monkeypatch, capsys):
    monkeypatch.setenv("PADDLE_TRAINER_ID", "3")
    set_up()
    logger.info("hidden")
    logger.warning("careful")
    out = capsys.readouterr().out
    assert "hidden" not in out and "[rank 3] warning: careful" in out


def test_setting_up_twice_prints_once(capsys):
    set_up()
    set_up()
    logger.info("once")
    assert capsys.readouterr().out.count("once") == 1


def test_the_root_logger_is_left_alone(capsys):
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    set_up()
    logger.info("text")
    assert (list(root.handlers), root.level) == before
    assert not logger.propagate


def test_a_file_gets_the_same_lines_with_dates_and_appends(tmp_path, capsys):
    path = tmp_path / "run" / "log.txt"
    log_to_file(path)
    logger.info("first é")
    log_to_file(path)
    logger.info("second")
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line[20:] for line in lines] == ["first é", "second"]
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", lines[0])
    assert capsys.readouterr().out.count("second") == 1


def test_an_exception_is_logged_with_its_traceback(capsys):
    try:
        raise ValueError("broken")
    except ValueError:
        logger.exception("it failed")
    out = capsys.readouterr().out
    assert "error: it failed" in out and "ValueError: broken" in out
