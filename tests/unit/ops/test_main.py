import http.server
import json
import threading

import pytest

from ops import main as command


@pytest.fixture
def executed(monkeypatch):
    calls = []

    def execv(path, arguments):
        calls.append(arguments[1:])
        raise SystemExit(0)

    monkeypatch.setattr(command.os, "execv", execv)
    monkeypatch.setattr(command.os, "chdir", lambda _: None)
    return calls


@pytest.mark.parametrize("verb", ["run", "up", "down", "status"])
def test_stack_verbs_become_the_stacks_own_process(executed, verb):
    with pytest.raises(SystemExit):
        command.main([verb])
    assert executed == [["-m", "infra.local", verb]]


def test_status_passes_json_on(executed):
    with pytest.raises(SystemExit):
        command.main(["status", "--json"])
    assert executed == [["-m", "infra.local", "status", "--json"]]


def test_without_a_verb_it_says_how_it_is_used(capsys):
    with pytest.raises(SystemExit) as ended:
        command.main([])
    assert ended.value.code == 2
    assert "usage: burstchat" in capsys.readouterr().err


@pytest.fixture
def gateway():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200 if self.path == "/v1/tokens" else 404)
            self.end_headers()
            self.wfile.write(json.dumps({"token": f"for {body['user']}"}).encode())

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("form", ["http://{}", "http://{}/", "ws://{}/ws", "{}"])
def test_a_token_is_fetched_whatever_form_the_address_has(gateway, form):
    assert command.fetch_token(form.format(gateway), "ann") == "for ann"


def test_a_gateway_without_dev_mode_is_named(gateway):
    with pytest.raises(command.TokenRefused, match="HTTP 404"):
        command.fetch_token(f"http://{gateway}/elsewhere", "ann")


def test_no_gateway_is_said_in_one_line(capsys):
    assert command.main(["chat", "--url", "http://127.0.0.1:1", "--user", "ann"]) == 1
    assert "no gateway answers at http://127.0.0.1:1" in capsys.readouterr().err
