// A small Markdown: text in, a tree out, and the tree to DOM nodes. Text only ever becomes text
// nodes and links only http(s) addresses, so an answer cannot bring markup or script.

const DEPTH_LIMIT = 8; // nested quotes, lists and emphasis; deeper text stays as it is written
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( +)(?=\S)/;
const TABLE_RULE = /^ {0,3}\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$/;

/** Top-level blocks; each carries the `source` it came from, so that unchanged ones can be kept. */
export function parse(text, depth = 0) {
  const lines = text.replaceAll("\r\n", "\n").replaceAll("\t", "    ").split("\n");
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    const [block, next] = readBlock(lines, at, depth);
    blocks.push({ ...block, source: lines.slice(at, next).join("\n") });
    at = next;
  }
  return blocks;
}

function readBlock(lines, at, depth) {
  const line = lines[at];
  const heading = HEADING.exec(line);
  if (FENCE.test(line)) return readCode(lines, at);
  if (heading) {
    return [{ type: "heading", level: heading[1].length, children: inline(heading[2]) }, at + 1];
  }
  if (RULE.test(line)) return [{ type: "rule" }, at + 1];
  if (depth < DEPTH_LIMIT && QUOTE.test(line)) return readQuote(lines, at, depth);
  if (depth < DEPTH_LIMIT && ITEM.test(line)) return readList(lines, at, depth);
  if (isTable(lines, at)) return readTable(lines, at);
  return readParagraph(lines, at, depth);
}

function readCode(lines, at) {
  const [, fence, language] = FENCE.exec(lines[at]);
  let end = at + 1;
  const closes = (line) => line.trim().startsWith(fence) && !line.trim().replaceAll(fence[0], "");
  while (end < lines.length && !closes(lines[end])) end += 1;
  const text = lines.slice(at + 1, end).join("\n");
  return [{ type: "code", language, text }, Math.min(end + 1, lines.length)];
}

function readQuote(lines, at, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, ""));
  return [{ type: "quote", children: parse(inner.join("\n"), depth + 1) }, end];
}

function readList(lines, at, depth) {
  const ordered = /\d/.test(ITEM.exec(lines[at])[2]);
  const start = ordered ? Number.parseInt(ITEM.exec(lines[at])[2], 10) : 1;
  const items = [];
  while (at < lines.length) {
    const marker = ITEM.exec(lines[at]);
    if (!marker || RULE.test(lines[at]) || /\d/.test(marker[2]) !== ordered) break;
    const indent = marker[0].length;
    const inner = [lines[at].slice(indent)];
    at += 1;
    while (at < lines.length && belongs(lines, at, indent)) {
      inner.push(lines[at].slice(Math.min(indent, leading(lines[at]))));
      at += 1;
    }
    items.push(parse(inner.join("\n"), depth + 1));
    while (at + 1 < lines.length && !lines[at].trim() && ITEM.test(lines[at + 1])) at += 1;
  }
  return [{ type: "list", ordered, start, items }, at];
}

function belongs(lines, at, indent) {
  const line = lines[at];
  if (!line.trim()) return at + 1 < lines.length && leading(lines[at + 1]) >= indent;
  if (leading(line) >= Math.min(indent, 2)) return true;
  const follows = Boolean(lines[at - 1].trim()); // a lazy continuation of the item's paragraph
  return follows && !ITEM.test(line) && !startsBlock(line);
}

function leading(line) {
  return line.length - line.trimStart().length;
}

function isTable(lines, at) {
  if (!lines[at].includes("|") || at + 1 >= lines.length) return false;
  return TABLE_RULE.test(lines[at + 1]) && cells(lines[at]).length === cells(lines[at + 1]).length;
}

function readTable(lines, at) {
  const header = cells(lines[at]).map((cell) => inline(cell));
  const align = cells(lines[at + 1]).map((cell) => {
    if (cell.endsWith(":")) return cell.startsWith(":") ? "center" : "end";
    return "start";
  });
  const rows = [];
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) {
    const row = cells(lines[end]).slice(0, header.length);
    rows.push(row.map((cell) => inline(cell)));
    end += 1;
  }
  return [{ type: "table", align, header, rows }, end];
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/\|$/, "");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function readParagraph(lines, at, depth) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !startsBlock(lines[end], depth)) {
    if (isTable(lines, end)) break;
    end += 1;
  }
  const text = lines.slice(at, end).map((line) => line.trimStart());
  return [{ type: "paragraph", children: inline(text.join("\n").trimEnd()) }, end];
}

function startsBlock(line, depth = 0) {
  if (FENCE.test(line) || HEADING.test(line) || RULE.test(line)) return true;
  return depth < DEPTH_LIMIT && (QUOTE.test(line) || ITEM.test(line));
}

// Each rule matches at one place only (sticky) and within a bounded stretch, so that no answer,
// however odd, makes the page stall.
const INLINE = [
  [/\\([!-/:-@[-`{-~])/y, (match) => ({ type: "text", text: match[1] })],
  [/(`+)([^`]|[^`][^]{0,4000}?[^`])\1(?!`)/y, (match) => ({ type: "code", text: unpadded(match[2]) })],
  [/!?\[([^[\]\n]{1,500})\]\(\s*(\S{1,2000}?)(?:\s+"[^"\n]*")?\s*\)/y, readLink],
  [/<(https?:\/\/[^\s<>]{1,2000})>/y, (match) => link(match[1], [plain(match[1])])],
  [/\bhttps?:\/\/[^\s<>"'`()[\]{}|\\^]{1,2000}/y, readBareLink],
  [/\*\*(?=\S)([^]{1,1000}?\S)\*\*(?!\*)/y, emphasis("strong")],
  [/(?<![\p{L}\p{N}])__(?=\S)([^]{1,1000}?\S)__(?![\p{L}\p{N}])/uy, emphasis("strong")],
  [/~~(?=\S)([^]{1,1000}?\S)~~/y, emphasis("del")],
  [/\*(?=[^\s*])([^*]{0,1000}?[^\s*])\*(?!\*)/y, emphasis("em")],
  [/(?<![\p{L}\p{N}])_(?=[^\s_])([^_]{0,1000}?[^\s_])_(?![\p{L}\p{N}])/uy, emphasis("em")],
  [/(?: {2,}|\\)?\n/y, () => ({ type: "break" })],
];
const SPECIAL = /[\\`[!<*_~\n]|\bhttps?:/g;

export function inline(text, depth = 0) {
  const nodes = [];
  let from = 0;
  let at = 0;
  while (depth < DEPTH_LIMIT) {
    SPECIAL.lastIndex = at;
    const special = SPECIAL.exec(text);
    if (!special) break;
    at = special.index;
    const found = matchAt(text, at, depth);
    if (found) {
      if (at > from) nodes.push(plain(text.slice(from, at)));
      nodes.push(found.node);
      at += found.length;
      from = at;
    } else at += 1;
  }
  if (from < text.length) nodes.push(plain(text.slice(from)));
  return nodes;
}

function matchAt(text, at, depth) {
  for (const [rule, build] of INLINE) {
    rule.lastIndex = at;
    const match = rule.exec(text);
    const built = match && build(match, depth);
    if (built) return { node: built, length: built.length ?? match[0].length };
  }
  return null;
}

function readLink(match, depth) {
  const [, label, address] = match;
  return isWebAddress(address) ? link(address, inline(label, depth + 1)) : null;
}

function readBareLink(match) {
  const address = match[0].replace(/[.,;:!?*_~]+$/, "");
  return isWebAddress(address)
    ? { ...link(address, [plain(address)]), length: address.length }
    : null;
}

function isWebAddress(address) {
  try {
    return /^https?:\/\//i.test(address) && /^https?:$/.test(new URL(address).protocol);
  } catch {
    return false;
  }
}

function emphasis(type) {
  return (match, depth) => ({ type, children: inline(match[1], depth + 1) });
}

function link(href, children) {
  return { type: "link", href, children };
}

function plain(text) {
  return { type: "text", text };
}

function unpadded(code) {
  return /^ .*\S.* $/s.test(code) ? code.slice(1, -1) : code;
}

/** DOM nodes of a block or inline node. */
export function toDom(node, document) {
  return BUILT[node.type](node, document);
}

const BUILT = {
  text: ({ text }, document) => document.createTextNode(text),
  break: (_, document) => document.createElement("br"),
  rule: (_, document) => document.createElement("hr"),
  code: (node, document) => {
    const code = element(document, "code", [document.createTextNode(node.text)]);
    if (!("language" in node)) return code;
    const pre = element(document, "pre", [code]);
    pre.tabIndex = 0; // scrolls sideways, so it must be reachable by keyboard
    if (node.language) pre.dataset.language = node.language;
    return pre;
  },
  strong: wrap("strong"),
  em: wrap("em"),
  del: wrap("del"),
  paragraph: wrap("p"),
  quote: wrap("blockquote"),
  heading: (node, document) =>
    // The page owns h1 and h2; an answer's headings come below them.
    element(document, `h${Math.min(node.level + 2, 6)}`, all(node.children, document)),
  link: (node, document) => {
    const anchor = element(document, "a", all(node.children, document));
    anchor.href = node.href;
    anchor.target = "_blank";
    anchor.rel = "noopener noreferrer nofollow";
    return anchor;
  },
  list: (node, document) => {
    const items = node.items.map((blocks) => element(document, "li", itemNodes(blocks, document)));
    const list = element(document, node.ordered ? "ol" : "ul", items);
    if (node.ordered && node.start !== 1) list.start = node.start;
    return list;
  },
  table: (node, document) => {
    const row = (name) => (row) => {
      const made = row.map((cell, column) => {
        const td = element(document, name, all(cell, document));
        td.className = `align-${node.align[column]}`;
        return td;
      });
      return element(document, "tr", made);
    };
    const head = element(document, "thead", [row("th")(node.header)]);
    const body = element(document, "tbody", node.rows.map(row("td")));
    const scroller = element(document, "div", [element(document, "table", [head, body])]);
    scroller.className = "table";
    scroller.tabIndex = 0;
    return scroller;
  },
};

function itemNodes(blocks, document) {
  // A tight item shows its first paragraph without paragraph spacing.
  return blocks.flatMap((block, index) =>
    index === 0 && block.type === "paragraph"
      ? all(block.children, document)
      : [toDom(block, document)],
  );
}

function wrap(name) {
  return (node, document) => element(document, name, all(node.children, document));
}

function all(nodes, document) {
  return nodes.map((node) => toDom(node, document));
}

function element(document, name, children) {
  const made = document.createElement(name);
  made.append(...children);
  return made;
}
