import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { sha256Hex } from "../../../clients/web/sha256.js";

test("hashes agree with the platform's for every length around a block", () => {
  for (let length = 0; length < 200; length++) {
    const text = "a".repeat(length);
    assert.equal(sha256Hex(text), createHash("sha256").update(text).digest("hex"));
  }
});

test("hashes cover the UTF-8 of the text", () => {
  for (const text of ["漫画", "👩‍🚀🇯🇵", "e\u0301", "\0", "x漢".repeat(9000)]) {
    assert.equal(sha256Hex(text), createHash("sha256").update(text, "utf8").digest("hex"));
  }
});
