/**
 * Reads the funds of owners at one block, with many calls in one request. The request names the block by its hash
 * (EIP-1898), so every Ethereum node answers for exactly that block.
 *
 * If another block has replaced that block, or if the node does not have it, the read throws `CHAIN_BLOCK_GONE`. The
 * caller then retries at a newer block.
 */

import { encodeFunctionData, type Hex } from 'viem'
import { conditionalTokensAbi } from '#contracts/artifacts/ConditionalTokens.abi.ts'
import { testUSDCAbi } from '#contracts/artifacts/TestUSDC.abi.ts'
import { Fault } from '#domain/fault.ts'
import {
  type BlockPlace,
  type ChainFunds,
  type FundsQuestion,
  type FundsToken,
  STABLECOIN,
} from '#domain/funds.ts'
import type { Address, MarketId } from '#domain/ids.ts'
import type { Outcome } from '#domain/order.ts'
import { headerOf } from './block-reads.ts'
import { type Call, hexAddress } from './call.ts'
import { asked, type ChainClient } from './clients.ts'
import { multicall } from './multicall.ts'
import { positionIdOf } from './position-id.ts'

/** Maximum number of calls per request. Together, they need far less gas than Ethereum nodes allow for one request. */
const CALLS_MAX = 400
const REQUESTS_AT_ONCE = 4
/** Maximum number of cached ids of outcome tokens; computing one takes a thousand times as long as a look-up. */
const IDS_KEPT_MAX = 50_000

type CallReader = {
  /** Returns the results of view calls at a block, in the order of the calls. */
  wordsOf(calls: readonly Call[], at: BlockPlace): Promise<bigint[]>
}

export function makeCallReader(client: ChainClient, multicallAddress: Address): CallReader {
  const batch = multicall(multicallAddress)

  async function wordsOfPart(calls: readonly Call[], at: BlockPlace): Promise<bigint[]> {
    const { to, data } = batch.aggregateCall(calls)
    const request = { to: hexAddress(to), data, ...blockOf(at) }
    const returned = await asked(client.viem.call(request)).catch((error: unknown) =>
      refused(client, at, error),
    )
    const words = wordsIn(batch, returned.data)
    if (words.length !== calls.length) {
      throw new Fault('CHAIN_REFUSED', `the contract at ${to} is not a multicall contract`, {
        retryable: false,
      })
    }
    return words
  }

  return {
    async wordsOf(calls, at) {
      const words: bigint[] = []
      for (let start = 0; start < calls.length; start += CALLS_MAX * REQUESTS_AT_ONCE) {
        const parts = Array.from({ length: REQUESTS_AT_ONCE }, (_, index) => {
          const from = start + index * CALLS_MAX
          return calls.slice(from, from + CALLS_MAX)
        }).filter((part) => part.length > 0)
        const answers = await Promise.all(parts.map((part) => wordsOfPart(part, at)))
        for (const answer of answers) for (const word of answer) words.push(word)
      }
      return words
    },
  }
}

/**
 * Throws the fault of a failed read. If the node refused the read, requests the block to find the reason. If the node
 * no longer has the block, throws `CHAIN_BLOCK_GONE`; otherwise throws the given error.
 */
async function refused(client: ChainClient, at: BlockPlace, error: unknown): Promise<never> {
  if (!(error instanceof Fault) || error.code !== 'CHAIN_REFUSED') throw error
  if ((await headerOf(client, at.block))?.hash === at.blockHash) throw error
  throw new Fault('CHAIN_BLOCK_GONE', `block ${at.block} is no longer part of the chain`, {
    retryable: true,
    cause: error,
  })
}

function blockOf({ blockHash }: BlockPlace) {
  return { blockHash: blockHash as Hex, requireCanonical: true } as const
}

function wordsIn(batch: ReturnType<typeof multicall>, returned: Hex = '0x'): bigint[] {
  try {
    return batch.resultsOf(returned).map((result) => {
      if (!result.ok || result.returned.length !== 66) throw new TypeError('no word')
      return BigInt(result.returned)
    })
  } catch {
    // An answer that cannot be decoded does not come from a multicall contract. The empty list makes the caller throw a
    // fault.
    return []
  }
}

export function makeFundsRead(
  reader: CallReader,
  contracts: FundsContracts,
): (questions: readonly FundsQuestion[], at: BlockPlace) => Promise<ChainFunds[]> {
  const { stablecoin, conditionalTokens, settlement } = contracts
  const ids = new Map<FundsToken, bigint>()

  function idOf(token: FundsToken): bigint {
    const known = ids.get(token)
    if (known !== undefined) return known
    const [marketId, outcome] = token.split('/')
    const id = BigInt(positionIdOf(stablecoin, marketId as MarketId, Number(outcome) as Outcome))
    if (ids.size >= IDS_KEPT_MAX) ids.clear()
    ids.set(token, id)
    return id
  }

  function callsOf(owner: Address, tokens: readonly FundsToken[]): Call[] {
    const who = hexAddress(owner)
    const spender = hexAddress(settlement)
    const coin = (data: Hex): Call => ({ to: stablecoin, data })
    const shares = (data: Hex): Call => ({ to: conditionalTokens, data })
    return [
      coin(encodeFunctionData({ abi: testUSDCAbi, functionName: 'balanceOf', args: [who] })),
      coin(
        encodeFunctionData({ abi: testUSDCAbi, functionName: 'allowance', args: [who, spender] }),
      ),
      coin(encodeFunctionData({ abi: testUSDCAbi, functionName: 'nonces', args: [who] })),
      shares(
        encodeFunctionData({
          abi: conditionalTokensAbi,
          functionName: 'isApprovedForAll',
          args: [who, spender],
        }),
      ),
      ...tokens.map((token) =>
        shares(
          encodeFunctionData({
            abi: conditionalTokensAbi,
            functionName: 'balanceOf',
            args: [who, idOf(token)],
          }),
        ),
      ),
    ]
  }

  return async (questions, at) => {
    const asked = questions.map(({ owner, tokens }) => ({
      owner,
      tokens: [...new Set(tokens)].filter((token) => token !== STABLECOIN),
    }))
    const calls = asked.flatMap(({ owner, tokens }) => callsOf(owner, tokens))
    const words = await reader.wordsOf(calls, at)
    let place = 0
    const next = (): bigint => words[place++] ?? 0n
    return asked.map(({ owner, tokens }) => ({
      owner,
      block: at.block,
      balance: next(),
      allowance: next(),
      nonce: next(),
      isApproved: next() !== 0n,
      tokens: new Map(tokens.map((token) => [token, next()])),
    }))
  }
}

export type FundsContracts = {
  readonly settlement: Address
  readonly conditionalTokens: Address
  readonly stablecoin: Address
}
