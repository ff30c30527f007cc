import assert from "node:assert/strict";
import { test } from "node:test";
import { inline, parse } from "../../../clients/web/markdown.js";

const text = (value) => ({ type: "text", text: value });
const kinds = (source) => parse(source).map((block) => block.type);

test("paragraphs are split by blank lines and keep their line breaks", () => {
  const [first, second] = parse("one\ntwo\n\nthree");
  assert.deepEqual(first.children, [text("one"), { type: "break" }, text("two")]);
  assert.deepEqual(second.children, [text("three")]);
});

test("every block carries the source it came from", () => {
  const source = "# A\n\n- b\n- c\n\n```js\nd\n```\ne";
  assert.deepEqual(
    parse(source).map((block) => block.source),
    ["# A", "- b\n- c", "```js\nd\n```", "e"],
  );
});

test("emphasis nests and stays out of words", () => {
  assert.deepEqual(inline("**a *b***"), [
    { type: "strong", children: [text("a "), { type: "em", children: [text("b")] }] },
  ]);
  assert.deepEqual(inline("snake_case_name 2 * 3 * 4"), [text("snake_case_name 2 * 3 * 4")]);
  assert.deepEqual(inline("~~old~~ __bold__"), [
    { type: "del", children: [text("old")] },
    text(" "),
    { type: "strong", children: [text("bold")] },
  ]);
});

test("emphasis that is not closed stays as it is written", () => {
  assert.deepEqual(inline("**half"), [text("**half")]);
  assert.deepEqual(inline("*"), [text("*")]);
});

test("escaped marks are plain", () => {
  assert.equal(inline("\\*a\\*").map((node) => node.text).join(""), "*a*");
});

test("code keeps its characters", () => {
  assert.deepEqual(inline("`<b>*x*</b>`"), [{ type: "code", text: "<b>*x*</b>" }]);
  assert.deepEqual(inline("`` a ` b ``"), [{ type: "code", text: "a ` b" }]);
});

test("a fence that is still open holds the rest", () => {
  const [block] = parse("```python\nx = 1\n\n# no heading");
  assert.deepEqual([block.type, block.language], ["code", "python"]);
  assert.equal(block.text, "x = 1\n\n# no heading");
});

test("headings, rules and quotes are blocks", () => {
  assert.deepEqual(kinds("## A ##\n---\n> b\n> - c"), ["heading", "rule", "quote"]);
  const [heading, , quote] = parse("## A ##\n---\n> b\n>\n> - c");
  assert.deepEqual([heading.level, heading.children], [2, [text("A")]]);
  assert.deepEqual(quote.children.map((block) => block.type), ["paragraph", "list"]);
});

test("lists nest, count from their first number and take continued lines", () => {
  const [list] = parse("3. a\n   more\n   - b\n   - c\n4. d");
  assert.deepEqual([list.ordered, list.start, list.items.length], [true, 3, 2]);
  assert.deepEqual(list.items[0].map((block) => block.type), ["paragraph", "list"]);
  assert.equal(list.items[0][1].items.length, 2);
});

test("a list with blank lines between its items is one list", () => {
  const [list, after] = parse("- a\n\n- b\n\nafter");
  assert.equal(list.items.length, 2);
  assert.equal(after.type, "paragraph");
});

test("numbers that begin a sentence in a paragraph do not swallow text", () => {
  assert.deepEqual(kinds("In 1984.\nyes"), ["paragraph"]);
});

test("tables have aligned columns and escaped bars", () => {
  const [table] = parse("| a | b |\n|:-:|---:|\n| 1 \\| 2 | **x** | extra |\n| 3 |");
  assert.deepEqual(table.align, ["center", "end"]);
  assert.deepEqual(table.rows[0][0], [text("1 | 2")]);
  assert.equal(table.rows[0].length, 2);
  assert.equal(table.rows[1].length, 1);
});

test("a bar without a rule below is no table", () => {
  assert.deepEqual(kinds("a | b\nc | d"), ["paragraph"]);
});

test("only web addresses become links", () => {
  const hrefs = (source) =>
    inline(source).filter((node) => node.type === "link").map((node) => node.href);
  assert.deepEqual(hrefs("[a](https://x.y/z) <http://p.q> see https://r.s/t?u=1."), [
    "https://x.y/z",
    "http://p.q",
    "https://r.s/t?u=1",
  ]);
  for (const address of [
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "data:text/html,x",
    "vbscript:x",
    "//x.y",
    "/local",
    "java\tscript:alert(1)",
    "\u0001javascript:alert(1)",
    "https:",
    "&#106;avascript:alert(1)",
  ]) {
    assert.deepEqual(hrefs(`[a](${address})`), [], address);
  }
});

test("markup in the text is text", () => {
  assert.deepEqual(inline("<img src=x onerror=y>"), [text("<img src=x onerror=y>")]);
});

test("deep nesting ends at a limit", () => {
  const depth = (blocks) => 1 + Math.max(0, ...blocks.map((block) => depth(block.children ?? [])));
  assert.ok(depth(parse(`${"> ".repeat(200)}x`)) < 12);
  assert.ok(JSON.stringify(inline(`${"*a **b ".repeat(500)}`)).length < 20_000);
});

test("odd texts of the largest answer are read quickly", () => {
  const size = 16_000;
  for (const piece of ["*", "_", "`", "[", "](", "**a ", "__a ", "~~", "> ", "- ", "|", "<https://", "\\", "1. ", "# "]) {
    const started = performance.now();
    parse(piece.repeat(size / piece.length));
    assert.ok(performance.now() - started < 3000, `${piece} took too long`);
  }
});

test("any text can be read while it is still arriving", () => {
  const source = "# T\n\n**b** `c` [l](https://x.y)\n\n- i\n  1. j\n\n| a |\n|---|\n| b |\n\n> q\n\n```js\nx\n```";
  for (let end = 0; end <= source.length; end++) parse(source.slice(0, end));
});
