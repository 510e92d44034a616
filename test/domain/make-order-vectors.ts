/**
 * Makes `order-vectors.json`, the fixed vectors of the order hash, with ethers: a library that shares no code with ours
 * or with viem. Run it by hand with `node test/domain/make-order-vectors.ts`, and only when the typed data changes. The
 * key is the first of the well-known development accounts.
 */

import { writeFileSync } from 'node:fs'
import { TypedDataEncoder, Wallet } from 'ethers'

const key = '0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80'
const wallet = new Wallet(key)
const types = {
  Order: [
    { name: 'marketId', type: 'bytes32' },
    { name: 'trader', type: 'address' },
    { name: 'side', type: 'uint8' },
    { name: 'outcome', type: 'uint8' },
    { name: 'price', type: 'uint64' },
    { name: 'size', type: 'uint64' },
    { name: 'nonce', type: 'uint64' },
    { name: 'expiration', type: 'uint64' },
    { name: 'makerFeeRecipient', type: 'address' },
  ],
}
const domains = [
  { chainId: 31337, verifyingContract: '0x5fbdb2315678afecb367f032d93f642f64180aa3' },
  { chainId: 137, verifyingContract: '0xffffffffffffffffffffffffffffffffffffffff' },
]
const rows: [string, number, number, number, number, string, string][] = [
  [`0x${'00'.repeat(31)}01`, 0, 0, 1, 1, '0', '60'],
  [`0x${'ab'.repeat(32)}`, 1, 1, 999_999, 9_007_199_254_740_991, '1', '1893456000'],
  [`0x${'ff'.repeat(32)}`, 0, 1, 420_000, 10_000_000, '18446744073709551615', '1893456000'],
  [
    `0x${'12'.repeat(32)}`,
    1,
    0,
    500_000,
    4_294_967_296,
    '9007199254740993',
    '18446744073709551615',
  ],
]

const vectors: object[] = []
for (const domain of domains) {
  for (const [marketId, side, outcome, price, size, nonce, expiration] of rows) {
    const order = {
      marketId,
      trader: wallet.address.toLowerCase(),
      side,
      outcome,
      price,
      size,
      nonce,
      expiration,
      makerFeeRecipient: `0x${'0'.repeat(40)}`,
    }
    const typedDomain = { name: 'SibylSettlement', version: '1', ...domain }
    vectors.push({
      domain,
      order,
      digest: TypedDataEncoder.hash(typedDomain, types, order),
      signature: await wallet.signTypedData(typedDomain, types, order),
    })
  }
}
writeFileSync(
  new URL('order-vectors.json', import.meta.url),
  `${JSON.stringify({ madeWith: 'ethers 6.17.0', key, vectors }, null, 2)}\n`,
)
