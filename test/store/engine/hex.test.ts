import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bytesOf, fillBytes, hexOf } from '#store/engine/hex.ts'

test('hex is converted to bytes and back', () => {
  const kept = Buffer.from('ffffffff', 'hex')
  fillBytes(kept, '0x00aB01cd')
  assert.equal(hexOf(kept), '0x00ab01cd')
  assert.deepEqual(bytesOf('0x00aB01cd'), kept)
})

test('hex text is refused if it lacks 0x, has half a byte, or has a non-hex character', () => {
  for (const text of ['00ab01cd12', '0x00ab01c', '0x00ab01cg', '0x00ab0\u0131cd', '1x00ab01cd']) {
    assert.throws(() => bytesOf(text), /expected 0x-hex/, text)
    assert.throws(() => fillBytes(Buffer.alloc(4), text), /expected 0x-hex/, text)
  }
})
