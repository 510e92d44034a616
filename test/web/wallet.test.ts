/** Requests of the page to wallets, and its messages when they refuse. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeFunctionData, type Hex, parseAbi, zeroHash } from 'viem'
import { SibylError } from '#client/sibyl-error.ts'
import type { ChainConfig } from '#protocol/shapes/config.ts'
import { wordsOf } from '#web/error-words.ts'
import {
  approveCall,
  disputeCall,
  mergeCall,
  splitCall,
  transferCall,
} from '#web/wallet/chain-calls.ts'
import { switchChain } from '#web/wallet/chain-switch.ts'
import { readFunds } from '#web/wallet/token-reads.ts'

const ACCOUNT = `0x${'11'.repeat(20)}`

test('the page switches a wallet to the exchange’s chain, and adds the chain if the wallet lacks it', async () => {
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

test('the page reads funds by contract calls, and reports a wrong chain instead of zero balances', async () => {
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
  assert.deepEqual(await readFunds(node(answers), chain, ACCOUNT), {
    stablecoin: 5n,
    allowance: 2n ** 256n - 1n,
    sharesApproved: true,
  })
  await assert.rejects(readFunds(node({}), chain, ACCOUNT), /another chain/)
})

test('the page shows each wallet, exchange or network error as a sentence', () => {
  assert.equal(
    wordsOf({ code: 4001, message: 'User rejected' }),
    'You declined the request in the wallet.',
  )
  assert.equal(
    wordsOf(new SibylError('MARKET_EXPIRED', 'the market has expired')),
    'The market has expired.',
  )
  assert.match(
    wordsOf(new SibylError('NETWORK', 'fetch failed', { outcomeUnknown: true })),
    /cannot be reached.*check before you repeat it/,
  )
  const cause = { code: -32002, message: 'already pending' }
  assert.match(wordsOf(new SibylError('WALLET_FAILED', 'it', { cause })), /waiting for your answer/)
  assert.equal(wordsOf(new Error('no way')), 'No way.')
  assert.equal(wordsOf(undefined), 'Something went wrong. Reload the page and try again.')
})

test('the page encodes its transactions as the contracts expect', () => {
  const [stablecoin, conditionalTokens, oracle, trader] = [1, 2, 3, 4].map(
    (digit) => `0x${String(digit).repeat(40)}` as const,
  ) as [Hex, Hex, Hex, Hex]
  const contracts = { stablecoin, conditionalTokens, oracle }
  const id: Hex = `0x${'ab'.repeat(32)}`
  const abi = parseAbi([
    'function approve(address spender, uint256 value)',
    'function transfer(address to, uint256 value)',
    'function splitPosition(address token, bytes32 parent, bytes32 condition, uint256[] sets, uint256 amount)',
    'function mergePositions(address token, bytes32 parent, bytes32 condition, uint256[] sets, uint256 amount)',
    'function disputeAssertion(bytes32 assertionId, address disputer)',
  ])
  const sets = [stablecoin, zeroHash, id, [1n, 2n], 7n] as const
  const dataOf = (functionName: string, args: readonly unknown[]) =>
    encodeFunctionData({ abi, functionName, args } as never)
  assert.deepEqual(
    [
      approveCall(contracts, oracle, 7n),
      transferCall(contracts, trader, 7n),
      splitCall(contracts, id, 7n),
      mergeCall(contracts, id, 7n),
      disputeCall(contracts, id, trader),
    ],
    [
      { to: stablecoin, data: dataOf('approve', [oracle, 7n]) },
      { to: stablecoin, data: dataOf('transfer', [trader, 7n]) },
      { to: conditionalTokens, data: dataOf('splitPosition', sets) },
      { to: conditionalTokens, data: dataOf('mergePositions', sets) },
      { to: oracle, data: dataOf('disputeAssertion', [id, trader]) },
    ],
  )
})
