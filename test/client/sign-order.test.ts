import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Wallet } from 'ethers'
import fc from 'fast-check'
import { createWalletClient, custom, recoverTypedDataAddress } from 'viem'
import { privateKeyToAccount, toAccount } from 'viem/accounts'
import { readAmount } from '#client/amount.ts'
import { buildOrder, type OrderDraft, type OrderIntent } from '#client/build-order.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { type OrderSigner, orderTypedData, signOrder } from '#client/sign-order.ts'
import type { Address } from '#domain/ids.ts'
import { ORDER_EXPIRATION_AHEAD_SEC_MIN } from '#domain/limits.ts'
import { orderFlaws } from '#domain/order.ts'
import { makeOrderInspector } from '#verify/inspect-orders.ts'
import { loadKeccak } from '#verify/keccak.ts'
import { loadRecovery } from '#verify/recover.ts'

const KEY = '0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d'
const account = privateKeyToAccount(KEY)
const trader = account.address.toLowerCase()
const domain = {
  chainId: 31337,
  verifyingContract: '0x5FbDB2315678afecb367f032d93F642f64180aa3' as Address,
}
const stablecoin = { address: domain.verifyingContract, domainName: 'USD Coin', domainVersion: '1' }
const inspectOrders = makeOrderInspector(
  [{ ...domain, stablecoin }],
  await loadRecovery(),
  loadKeccak(),
)

const NOW = 1_800_000_000
const intent = {
  marketId: `0x${'AB'.repeat(32)}`,
  side: 'buy',
  outcome: 'YES',
  price: '0.42',
  size: '10',
  ttlSeconds: 3_600,
  nowSec: NOW,
} as const

/**
 * Builds a draft from the intent with some fields replaced. The new values may have wrong types, as from untyped
 * callers.
 */
function draftOf(fields: object = {}): OrderDraft {
  return buildOrder({ ...intent, ...fields } as OrderIntent)
}

function assertRefused(fields: object, code: string, field: string, words: RegExp): void {
  assert.throws(
    () => draftOf(fields),
    (error) => {
      assert.ok(error instanceof SibylError)
      assert.equal(error.code, code, error.message)
      assert.equal(error.field, field)
      assert.match(error.message, words)
      return true
    },
    JSON.stringify(fields, (_, value) => (typeof value === 'bigint' ? `${value}n` : value)),
  )
}

test('the SDK converts an order with decimal amounts to the integers of the API', () => {
  assert.deepEqual(draftOf({ nonce: 18_446_744_073_709_551_615n }), {
    marketId: `0x${'ab'.repeat(32)}`,
    side: 0,
    outcome: 0,
    price: 420_000,
    size: 10_000_000,
    nonce: '18446744073709551615',
    expiration: String(NOW + 3_600),
    makerFeeRecipient: `0x${'0'.repeat(40)}`,
  })
  const sale = draftOf({ side: 'sell', outcome: 'NO', price: 1n, size: 1n })
  assert.deepEqual([sale.side, sale.outcome, sale.price, sale.size], [1, 1, 1, 1])
  const dated = draftOf({ ttlSeconds: undefined, expiration: '18446744073709551615' })
  assert.equal(dated.expiration, '18446744073709551615')
})

test('amounts with six decimals are parsed exactly from text, numbers and bigints', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }), (value) => {
      const digits = String(value).padStart(7, '0')
      const text = `${digits.slice(0, -6)}.${digits.slice(-6)}`
      assert.equal(readAmount('size', text), value)
      assert.equal(readAmount('size', `${text}000`), value)
      assert.equal(readAmount('size', value), value)
      assert.equal(readAmount('size', BigInt(value)), value)
    }),
  )
})

test('a price or a size with too many decimals is refused, not rounded', () => {
  for (const field of ['price', 'size']) {
    const path = `order.${field}`
    assertRefused({ [field]: 0.42 }, 'INVALID_FIELD', path, /write it as text: '0\.42'/)
    assertRefused({ [field]: '0.1234567' }, 'INVALID_FIELD', path, /more than 6 decimals/)
    for (const text of ['', ' ', '.5', '5.', '1e3', '-1', '+1', '0x10', '1,5', 'abc', '٣']) {
      assertRefused({ [field]: text }, 'INVALID_FIELD', path, /is not a decimal number/)
    }
    assertRefused({ [field]: Number.NaN }, 'INVALID_FIELD', path, /NaN/)
    assertRefused({ [field]: 2 ** 53 }, 'INVALID_FIELD', path, /more than 9007199254\.740991/)
    assertRefused({ [field]: '9007199254.740992' }, 'INVALID_FIELD', path, /more than/)
  }
})

test('the client refuses to sign an order that the exchange would refuse', () => {
  for (const price of ['0', '1', '1.000000', 0, 1_000_000, -1, '420000']) {
    assertRefused({ price }, 'PRICE_OUT_OF_RANGE', 'order.price', /0\.000001/)
  }
  const cents =
    /^price: a number is in millionths of a dollar, so 42 means 0\.000042 dollars; write '0\.42' for 42 cents, or '0\.000042'/
  assertRefused({ price: 42 }, 'PRICE_OUT_OF_RANGE', 'order.price', cents)
  assert.equal(draftOf({ price: 100 }).price, 100)
  for (const size of ['0', '0.000000', 0, -5]) {
    assertRefused({ size }, 'SIZE_NOT_POSITIVE', 'order.size', /above zero/)
  }
  const least = ORDER_EXPIRATION_AHEAD_SEC_MIN
  const inSeconds = new RegExp(`${least} seconds`)
  assertRefused({ ttlSeconds: least - 1 }, 'EXPIRATION_TOO_SOON', 'order.expiration', inSeconds)
  assertRefused({ ttlSeconds: 90.5 }, 'INVALID_FIELD', 'order.expiration', /integer/)
  assertRefused({ ttlSeconds: undefined }, 'MISSING_FIELD', 'order.expiration', /either/)
  assertRefused({ expiration: NOW + 100 }, 'MISSING_FIELD', 'order.expiration', /either/)
  assertRefused({ nonce: -1 }, 'INVALID_FIELD', 'order.nonce', /integer from 0/)
  assertRefused({ nonce: 2 ** 60 }, 'INVALID_FIELD', 'order.nonce', /as a bigint/)
  assertRefused({ nonce: 2n ** 64n }, 'INVALID_FIELD', 'order.nonce', /2\^64/)
  assertRefused({ side: 'BUY' }, 'INVALID_FIELD', 'order.side', /neither/)
  assertRefused({ outcome: 0 }, 'INVALID_FIELD', 'order.outcome', /neither/)
  assertRefused({ marketId: '0x12' }, 'INVALID_FIELD', 'order.marketId', /64 hex digits/)
})

test('two orders with identical terms get different nonces', () => {
  const nonces = new Set(Array.from({ length: 100 }, () => draftOf().nonce))
  assert.equal(nonces.size, 100)
})

test('the server’s checks accept an order signed by any supported kind of signer', async () => {
  const ethersWallet = new Wallet(KEY)
  const walletClient = createWalletClient({
    account,
    transport: custom({ request: () => Promise.reject(new Error('nothing is asked of a node')) }),
  })
  const signers: Record<string, OrderSigner> = {
    'a private key': KEY,
    'a viem account': account,
    'a viem wallet client': walletClient,
    'a custom viem account': toAccount({
      address: account.address,
      signMessage: () => assert.fail('not a message'),
      signTransaction: () => assert.fail('not a transaction'),
      signTypedData: (typedData) => account.signTypedData(typedData),
    }),
    'an ethers wallet': {
      address: ethersWallet.address,
      signTypedData: ({ domain, types, message }) =>
        ethersWallet.signTypedData(domain, { Order: [...types.Order] }, message),
    },
  }
  const draft = draftOf({ nonce: '18446744073709551615' })
  const signatures = new Set<string>()
  for (const [name, signer] of Object.entries(signers)) {
    const body = await signOrder(draft, signer, domain)
    const posted = JSON.parse(JSON.stringify(body))
    assert.deepEqual(posted, body, name)
    assert.deepEqual(orderFlaws(posted.order, NOW), [], name)
    const [inspection] = inspectOrders([{ chainId: domain.chainId, ...posted }])
    assert.ok(inspection !== undefined && 'flaw' in inspection)
    assert.equal(inspection.flaw, null, name)
    assert.equal(inspection.recovered, trader, name)
    signatures.add(body.signature)
  }
  assert.equal(signatures.size, 1, 'deterministic signatures agree')
})

test('viem recovers the trader’s address from the typed data of a signed order', async () => {
  const { order, signature } = await signOrder(draftOf(), KEY, domain)
  const recovered = await recoverTypedDataAddress({
    ...orderTypedData(order, domain),
    signature: signature as `0x${string}`,
  })
  assert.equal(recovered, account.address)
})

test('signing an order fails if the signer returns a malformed signature or has an invalid address or key', async () => {
  const draft = draftOf()
  const signTypedData = async () => `0x${'1'.repeat(200)}`
  await assert.rejects(signOrder(draft, { address: account.address, signTypedData }, domain), {
    code: 'INVALID_SIGNATURE',
  })
  await assert.rejects(signOrder(draft, { address: '0x1', signTypedData }, domain), {
    code: 'INVALID_FIELD',
    field: 'order.trader',
  })
  await assert.rejects(signOrder(draft, '0xdead', domain), (error) => {
    assert.ok(error instanceof SibylError)
    assert.ok(!error.message.includes('dead'), 'a key is never repeated')
    return true
  })
})

test('the SDK imports no Node modules and uses no Node globals, so that browsers can run it', async () => {
  const { readFile } = await import('node:fs/promises')
  const seen = new Set<string>()
  async function visit(url: URL): Promise<void> {
    if (seen.has(url.href)) return
    seen.add(url.href)
    const source = await readFile(url, 'utf8')
    for (const [, specifier] of source.matchAll(/(?:from |import\()'([^']+)'/g)) {
      assert.ok(!specifier!.startsWith('node:'), `${url.pathname} imports ${specifier}`)
      if (specifier!.startsWith('.')) await visit(new URL(specifier!, url))
      else if (specifier!.startsWith('#')) {
        const room = specifier!.startsWith('#contracts/') ? '' : 'src/'
        await visit(new URL(`../../${room}${specifier!.slice(1)}`, import.meta.url))
      }
    }
    assert.doesNotMatch(source, /\b(Buffer|process)\b\s*[.(]/, url.pathname)
  }
  await visit(new URL('../../src/client/sign-order.ts', import.meta.url))
  await visit(new URL('../../src/client/client.ts', import.meta.url))
  assert.ok(seen.size > 8)
})
