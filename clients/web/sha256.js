// SHA-256 in plain JavaScript: crypto.subtle is asynchronous and does not exist on plain-HTTP
// origins other than localhost, and the reducer that checks answers is synchronous.

const ROUND_CONSTANTS = fractionalBits(64, 1 / 3);
const INITIAL_HASH = fractionalBits(8, 1 / 2);

/** Lower-case hex SHA-256 of the UTF-8 encoding of `text`. */
export function sha256Hex(text) {
  const message = padded(new TextEncoder().encode(text));
  const view = new DataView(message.buffer);
  const hash = Int32Array.from(INITIAL_HASH);
  const words = new Int32Array(64);
  for (let block = 0; block < message.length; block += 64) {
    for (let i = 0; i < 16; i++) words[i] = view.getInt32(block + i * 4);
    for (let i = 16; i < 64; i++) words[i] = expand(words, i);
    compress(hash, words);
  }
  return Array.from(hash, (word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
}

function padded(bytes) {
  const message = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64);
  message.set(bytes);
  message[bytes.length] = 0x80;
  const bits = bytes.length * 8;
  const view = new DataView(message.buffer);
  view.setUint32(message.length - 8, Math.floor(bits / 2 ** 32));
  view.setUint32(message.length - 4, bits >>> 0);
  return message;
}

function expand(words, i) {
  const a = words[i - 15];
  const b = words[i - 2];
  const s0 = rotate(a, 7) ^ rotate(a, 18) ^ (a >>> 3);
  const s1 = rotate(b, 17) ^ rotate(b, 19) ^ (b >>> 10);
  return (words[i - 16] + s0 + words[i - 7] + s1) | 0;
}

function compress(hash, words) {
  let [a, b, c, d, e, f, g, h] = hash;
  for (let i = 0; i < 64; i++) {
    const s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + ROUND_CONSTANTS[i] + words[i]) | 0;
    const s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [a, b, c, d, e, f, g, h] = [(t1 + t2) | 0, a, b, c, (d + t1) | 0, e, f, g];
  }
  [a, b, c, d, e, f, g, h].forEach((word, i) => (hash[i] = (hash[i] + word) | 0));
}

function rotate(word, bits) {
  return (word >>> bits) | (word << (32 - bits));
}

/** First 32 fractional bits of `prime ** power` for the first `count` primes (FIPS 180-4). */
function fractionalBits(count, power) {
  const found = [];
  for (let n = 2; found.length < count; n++) {
    if (found.every((prime) => n % prime !== 0)) found.push(n);
  }
  return Int32Array.from(found, (prime) => {
    const root = prime ** power;
    return ((root - Math.floor(root)) * 2 ** 32) | 0;
  });
}
