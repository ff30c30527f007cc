import json

from infra.local.follow import LogFollower, render


def test_an_event_becomes_its_name_and_fields():
    line = json.dumps(
        {"at_ms": 1, "level": "info", "role": "gateway", "component": "c", "event": "up", "port": 1}
    )
    assert render("gateway", line) == "up port=1"


def test_a_warning_says_so():
    assert render("gateway", '{"level":"warning","event":"slow"}') == "WARNING slow"


def test_powertools_events_read_alike():
    line = '{"level":"INFO","location":"f:1","message":"refreshed","timestamp":"t","service":"s","n":3}'
    assert render("aws_emulator", line) == "refreshed n=3"


def test_metric_lines_and_known_noise_are_left_out():
    assert render("gateway", '{"_aws":{},"n":1}') is None
    assert render("valkey", "# WARNING Memory overcommit must be enabled!") is None


def test_of_the_emulator_only_functions_and_warnings_are_shown():
    assert render("aws_emulator", "2026 INFO [s3] bucket created") is None
    assert (
        render("aws_emulator", "2026 ERROR [lambda] timed out") == "2026 ERROR [lambda] timed out"
    )


def test_a_line_that_only_looks_like_json_is_shown_as_it_is():
    assert render("gateway", "{broken") == "{broken"


def test_a_follower_prints_whole_lines_as_they_come(tmp_path, capsys):
    log = tmp_path / "a.log"
    follower = LogFollower(prints=True, has_colours=False)
    follower.add("gateway", "gateway", log)
    follower.step()
    with log.open("a") as out:
        out.write("first\nsec")
    follower.step()
    with log.open("a") as out:
        out.write("ond\n")
    follower.step()
    assert capsys.readouterr().out.splitlines() == [
        "gateway        │ first",
        "gateway        │ second",
    ]


def test_a_truncated_log_is_followed_from_its_beginning(tmp_path, capsys):
    log = tmp_path / "a.log"
    follower = LogFollower(prints=True, has_colours=True)
    follower.add("gateway", "gateway 1", log)
    log.write_text("a long first line\n")
    follower.step()
    log.write_text("new\n")
    follower.step()
    assert capsys.readouterr().out.splitlines()[-1] == "\x1b[36mgateway 1      │\x1b[0m new"
