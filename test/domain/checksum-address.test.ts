import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { getAddress } from 'viem'
import { checksumAddress } from '#domain/checksum-address.ts'
import { type Address, toAddress } from '#domain/ids.ts'
import { CHECKSUM_ADDRESSES_MAX } from '#domain/limits.ts'

test('a wallet address is written with the checksum of EIP-55', () => {
  for (const text of [
    '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
    '0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359',
    '0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB',
    '0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb',
    '0x0000000000000000000000000000000000000000',
  ]) {
    assert.equal(checksumAddress(toAddress(text)), text)
  }
})

test('the checksum of a wallet address equals viem’s checksum, when computed and when read from the cache', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 20, maxLength: 20 }), (bytes) => {
      const address = `0x${Buffer.from(bytes).toString('hex')}` as Address
      const expected = getAddress(address)
      assert.equal(checksumAddress(address), expected)
      assert.equal(checksumAddress(address), expected)
    }),
  )
})

test('the checksum of a wallet address stays correct when the checksum cache overflows', () => {
  const address = (index: number) => `0x${index.toString(16).padStart(40, 'a')}` as Address
  for (let index = 0; index < CHECKSUM_ADDRESSES_MAX + 10; index++) checksumAddress(address(index))
  for (let index = 0; index < CHECKSUM_ADDRESSES_MAX; index += 997) {
    assert.equal(checksumAddress(address(index)), getAddress(address(index)))
  }
})
