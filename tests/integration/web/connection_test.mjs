import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Connection } from "../../../clients/web/connection.js";

let sockets;
let timers;
let unauthorised;

class FakeSocket {
  constructor(url, protocols) {
    Object.assign(this, { url, protocols, readyState: 0, sent: [] });
    sockets.push(this);
  }
  send(data) {
    this.sent.push(JSON.parse(data));
  }
  close(code) {
    Object.assign(this, { readyState: 3, closedWith: code });
  }
  ready(fields = {}) {
    this.readyState = 1;
    const frame = { type: "session.ready", session_id: "s1", heartbeat_ms: 25_000, running: [] };
    this.receive({ ...frame, ...fields });
  }
  receive(frame) {
    this.onmessage({ data: JSON.stringify(frame) });
  }
  async end(code) {
    this.readyState = 3;
    this.onclose({ code, reason: "" });
    await new Promise(setImmediate);
  }
}

class FakeTimers {
  nowMs = 1_000_000;
  #due = new Map();
  #next = 1;
  now = () => this.nowMs;
  set = (callback, delayMs) => {
    this.#due.set(this.#next, { callback, atMs: this.nowMs + delayMs });
    return this.#next++;
  };
  clear = (timer) => this.#due.delete(timer);
  advance(ms) {
    const end = this.nowMs + ms;
    for (;;) {
      const due = [...this.#due].filter(([, { atMs }]) => atMs <= end);
      if (!due.length) break;
      const [timer, { callback, atMs }] = due.sort((a, b) => a[1].atMs - b[1].atMs)[0];
      this.#due.delete(timer);
      this.nowMs = atMs;
      callback();
    }
    this.nowMs = end;
  }
}

function connect(options = {}) {
  const connection = new Connection({
    sessionId: "s1",
    url: (sessionId) => `ws://h/ws?session_id=${sessionId}`,
    protocols: () => ["burstchat.v1", "bearer.t0"],
    onChange: () => {},
    isUnauthorised: async () => unauthorised,
    WebSocket: FakeSocket,
    timers,
    random: () => 0.5,
    ...options,
  });
  connection.open();
  return connection;
}

beforeEach(() => {
  sockets = [];
  timers = new FakeTimers();
  unauthorised = false;
});

test("a connection names the session and signs in through a sub-protocol", () => {
  connect();
  assert.equal(sockets[0].url, "ws://h/ws?session_id=s1");
  assert.deepEqual(sockets[0].protocols, ["burstchat.v1", "bearer.t0"]);
});

test("messages written while away go out once it is ready", () => {
  const connection = connect();
  connection.send("m1", "hello");
  assert.deepEqual(sockets[0].sent, []);
  sockets[0].ready();
  assert.deepEqual(sockets[0].sent, [{ type: "chat.send", message_id: "m1", text: "hello" }]);
  assert.equal(connection.link.state, "online");
});

test("delays grow with full jitter and are short again after a stable connection", async () => {
  const connection = connect();
  for (const delayMs of [250, 500, 1000]) {
    await sockets.at(-1).end(1006);
    assert.equal(connection.link.at_ms - timers.nowMs, delayMs);
    timers.advance(delayMs);
  }
  sockets.at(-1).ready();
  await sockets.at(-1).end(1006);
  assert.equal(connection.link.at_ms - timers.nowMs, 2000);
  timers.advance(2000);
  sockets.at(-1).ready();
  timers.advance(6000);
  await sockets.at(-1).end(1006);
  assert.equal(connection.link.at_ms - timers.nowMs, 250);
});

test("delays never exceed half a minute", async () => {
  const connection = connect({ random: () => 0.9999 });
  for (let failures = 0; failures < 12; failures++) {
    await sockets.at(-1).end(1006);
    timers.advance(connection.link.at_ms - timers.nowMs);
  }
  await sockets.at(-1).end(1006);
  assert.ok(connection.link.at_ms - timers.nowMs <= 30_000);
});

test("a server that goes away is left at the time it names", () => {
  connect();
  sockets[0].ready();
  sockets[0].receive({ type: "session.goaway", reason: "drain", reconnect_after_ms: 9000 });
  timers.advance(8999);
  assert.equal(sockets.length, 1);
  timers.advance(1);
  assert.equal(sockets.length, 2);
  assert.equal(sockets[0].closedWith, 1000);
});

test("a server that closes before that time is not called earlier", async () => {
  const connection = connect();
  sockets[0].ready();
  sockets[0].receive({ type: "session.goaway", reason: "drain", reconnect_after_ms: 9000 });
  timers.advance(4000);
  await sockets[0].end(1001);
  assert.equal(connection.link.at_ms - timers.nowMs, 5000);
});

for (const code of [4000, 4400, 4401, 4429]) {
  test(`close code ${code} is final until a person acts`, async () => {
    const connection = connect();
    sockets[0].ready();
    await sockets[0].end(code);
    assert.deepEqual([connection.link.state, connection.link.code], ["stopped", code]);
    timers.advance(600_000);
    assert.equal(sockets.length, 1);
    connection.reconnect();
    assert.equal(sockets.length, 2);
  });
}

test("an idle close rests until the user writes", async () => {
  const connection = connect();
  sockets[0].ready();
  await sockets[0].end(4408);
  timers.advance(600_000);
  assert.equal(connection.link.state, "idle");
  assert.equal(sockets.length, 1);
  connection.send("m1", "hello");
  sockets[1].ready();
  assert.equal(sockets[1].sent[0].message_id, "m1");
});

test("a slow consumer comes back and resumes", async () => {
  const connection = connect();
  sockets[0].ready();
  connection.send("m1", "hello");
  sockets[0].receive({ type: "chat.accepted", message_id: "m1", turn_id: "t", path: "inline" });
  await sockets[0].end(4409);
  timers.advance(250);
  sockets[1].ready();
  const resume = { type: "chat.resume", turn_id: "t", after_seq: -1, attempt: 0 };
  assert.deepEqual(sockets[1].sent, [resume]);
  timers.advance(2000);
  assert.deepEqual(sockets[1].sent, [resume, resume]);
});

test("a message that was too large is not repeated", async () => {
  const connection = connect();
  sockets[0].ready();
  connection.send("m1", "hello");
  await sockets[0].end(1009);
  assert.equal(connection.state.turns[0].code, "message_too_large");
  timers.advance(1000);
  sockets[1].ready();
  assert.deepEqual(sockets[1].sent, []);
});

test("a refused sign-in stops the attempts", async () => {
  unauthorised = true;
  const connection = connect();
  await sockets[0].end(1006);
  assert.deepEqual([connection.link.state, connection.link.code], ["stopped", 4401]);
  timers.advance(600_000);
  assert.equal(sockets.length, 1);
});

test("a silent peer is given up after a ping without an answer", () => {
  connect();
  sockets[0].ready();
  timers.advance(25_000);
  assert.equal(sockets[0].sent.at(-1).type, "ping");
  sockets[0].receive({ type: "pong", nonce: null, at_ms: 0 });
  timers.advance(34_999);
  assert.equal(sockets.length, 1);
  timers.advance(1);
  assert.equal(sockets.length, 2);
});

test("frames of a socket that was left are ignored", () => {
  const connection = connect();
  sockets[0].ready();
  sockets[0].receive({ type: "session.goaway", reason: "drain", reconnect_after_ms: 0 });
  timers.advance(0);
  sockets[0].receive({ type: "chat.history", turns: [], more: true });
  assert.equal(connection.state.more, false);
});

test("waking up connects at once and checks an open connection", async () => {
  const connection = connect();
  await sockets[0].end(1006);
  connection.wake();
  assert.equal(sockets.length, 2);
  sockets[1].ready();
  connection.wake();
  assert.equal(sockets[1].sent[0].type, "ping");
});

test("a wrong text is fetched", async () => {
  const connection = connect({ fetchText: async (turnId) => `stored ${turnId}` });
  sockets[0].ready();
  connection.send("m1", "hello");
  const turn = { turn_id: "t", attempt: 1 };
  sockets[0].receive({ type: "chat.accepted", message_id: "m1", turn_id: "t", path: "inline" });
  sockets[0].receive({ type: "chat.response.started", ...turn, seq: 0, path: "inline" });
  sockets[0].receive({ type: "chat.response.completed", ...turn, seq: 1, length: 1, sha256: "" });
  await new Promise(setImmediate);
  assert.equal(connection.state.turns[0].text, "stored t");
});

test("a closed connection stays closed and silent", async () => {
  let changes = 0;
  const connection = connect({ onChange: () => (changes += 1) });
  sockets[0].ready();
  connection.close();
  const before = changes;
  timers.advance(600_000);
  assert.equal(sockets.length, 1);
  assert.equal(changes, before);
});
