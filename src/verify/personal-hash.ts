/** Returns the digest that a wallet signs for a plain text (EIP-191, `personal_sign`). */

export function personalHash(
  text: string,
  keccak256: (bytes: Uint8Array) => Uint8Array,
): Uint8Array {
  const message = Buffer.from(text, 'utf8')
  const head = Buffer.from(`\x19Ethereum Signed Message:\n${message.length}`, 'utf8')
  return keccak256(Buffer.concat([head, message]))
}
