/** How the page asks wallets, and what it says when they refuse. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recoverTypedDataAddress, serializeTypedData } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import type { ChainConfig } from '#client/answers.ts'
import { buildOrder } from '#client/build-order.ts'
import { SibylError } from '#client/sibyl-error.ts'
import { orderTypedData, signOrder } from '#client/sign-order.ts'
import { toAddress } from '#domain/ids.ts'
import { wordsOf } from '#web/error-words.ts'
import { switchChain } from '#web/wallet/chain-switch.ts'
import { walletSigner } from '#web/wallet/signer.ts'
import { readFunds } from '#web/wallet/token-reads.ts'
import { typedPayload } from '#web/wallet/typed-payload.ts'

const account = privateKeyToAccount(`0x${'11'.repeat(32)}`)
const domain = { chainId: 31_337, verifyingContract: toAddress(`0x${'22'.repeat(20)}`) }
const draft = buildOrder({
  marketId: `0x${'33'.repeat(32)}`,
  side: 'buy',
  outcome: 'YES',
  price: '0.42',
  size: '10',
  nonce: 2n ** 64n - 1n,
  expiration: 4_000_000_000,
})
const settled = async () => {}

test('the payload of an order is what wallets expect, its integers exact', () => {
  const order = { ...draft, trader: toAddress(account.address) }
  const typed = orderTypedData(order, domain)
  const payload = JSON.parse(typedPayload(typed as never)) as Record<string, unknown>
  const { EIP712Domain } = payload.types as { EIP712Domain: object[] }
  const types = { ...typed.types, EIP712Domain }
  assert.deepEqual(payload, JSON.parse(serializeTypedData({ ...typed, types } as never)))
  assert.equal((payload.message as { nonce: string }).nonce, '18446744073709551615')
  assert.deepEqual(
    (payload.types as { EIP712Domain: { name: string }[] }).EIP712Domain.map(({ name }) => name),
    ['name', 'version', 'chainId', 'verifyingContract'],
  )
})

test('an order that a wallet signs is signed as the exchange hashes it', async () => {
  const asked: string[] = []
  const provider = {
    async request({ method, params = [] }: { method: string; params?: readonly unknown[] }) {
      asked.push(method)
      const typed = JSON.parse(String(params[1])) as Parameters<typeof account.signTypedData>[0]
      return account.signTypedData(typed)
    },
  }
  const { order, signature } = await signOrder(
    draft,
    walletSigner(provider, account.address, settled),
    domain,
  )
  assert.deepEqual(asked, ['eth_signTypedData_v4'])
  const signer = await recoverTypedDataAddress({
    ...(orderTypedData(order, domain) as never as Parameters<typeof account.signTypedData>[0]),
    signature: signature as `0x${string}`,
  })
  assert.equal(signer, account.address)
})

test('a wallet on another chain is asked to change, and is told of a chain it does not know', async () => {
  const asked: { method: string; params?: readonly unknown[] }[] = []
  const chain = { chainId: 31_337, role: 'test', rpcUrl: 'http://127.0.0.1:8545' } as ChainConfig
  const wallet = (chainId: string) => ({
    async request(call: { method: string; params?: readonly unknown[] }) {
      asked.push(call)
      if (call.method === 'eth_chainId') return chainId
      if (call.method === 'wallet_switchEthereumChain') throw { code: 4902, message: 'unknown' }
      return null
    },
  })
  await switchChain(wallet('0x7a69'), chain)
  assert.deepEqual(
    asked.splice(0).map(({ method }) => method),
    ['eth_chainId'],
  )
  await switchChain(wallet('0x1'), chain)
  assert.deepEqual(
    asked.splice(0).map(({ method }) => method),
    ['eth_chainId', 'wallet_switchEthereumChain', 'wallet_addEthereumChain'],
  )
})

test('funds are read by plain calls, and a wrong chain is no balance of zero', async () => {
  const contracts = {
    stablecoin: `0x${'aa'.repeat(20)}`,
    conditionalTokens: `0x${'bb'.repeat(20)}`,
    settlement: `0x${'cc'.repeat(20)}`,
  }
  const chain = { contracts } as unknown as ChainConfig
  const word = (value: bigint) => `0x${value.toString(16).padStart(64, '0')}`
  const node = (answers: Record<string, string>) => ({
    async request({ params = [] }: { params?: readonly unknown[] }) {
      const { data } = params[0] as { data: string }
      return answers[data.slice(0, 10)] ?? '0x'
    },
  })
  const answers = {
    '0x70a08231': word(5n),
    '0xdd62ed3e': word(2n ** 256n - 1n),
    '0xe985e9c5': word(1n),
  }
  assert.deepEqual(await readFunds(node(answers), chain, account.address), {
    stablecoin: 5n,
    allowance: 2n ** 256n - 1n,
    sharesApproved: true,
  })
  await assert.rejects(readFunds(node({}), chain, account.address), /another chain/)
})

test('whatever went wrong is said in words', () => {
  assert.equal(wordsOf({ code: 4001, message: 'User rejected' }), 'You declined in the wallet.')
  assert.equal(
    wordsOf(new SibylError('MARKET_EXPIRED', 'the market has expired')),
    'The market has expired.',
  )
  assert.match(
    wordsOf(new SibylError('NETWORK', 'fetch failed', { outcomeUnknown: true })),
    /cannot be reached.*look before you repeat it/,
  )
  const cause = { code: -32002, message: 'already pending' }
  assert.match(wordsOf(new SibylError('WALLET_FAILED', 'it', { cause })), /already asking/)
  assert.equal(wordsOf(new Error('no way')), 'No way.')
  assert.equal(wordsOf(undefined), 'Something went wrong.')
})
