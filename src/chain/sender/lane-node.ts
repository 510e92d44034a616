/**
 * The requests of a lane (one key on one chain) to an Ethereum node: for blocks, receipts, the key's
 * transaction count, fees and gas.
 */

import {
  type Hex,
  hexToBigInt,
  hexToNumber,
  type LocalAccount,
  numberToHex,
  type PublicClient,
} from 'viem'
import { Fault } from '#domain/fault.ts'
import { toAddress } from '#domain/ids.ts'
import { everythingSaid, shortly } from './broadcast-error.ts'
import { type Fees, freshFees } from './fees.ts'
import { wantedTip } from './offered-fees.ts'
import type { Receipt, SendRequest } from './sender.ts'

export type Head = {
  readonly number: number
  readonly hash: string
  readonly parentHash: string
  readonly baseFee: bigint
}

export type LaneNode = {
  /** Returns a block; undefined if the node does not have it. */
  block(number: number | 'latest'): Promise<Head | undefined>
  headBlock(): Promise<Head>
  /**
   * Returns the key's next nonce at the newest block. With `pending`, returns the next nonce after the transactions in
   * the node's pool.
   */
  transactionCount(seen?: 'latest' | 'pending'): Promise<number>
  receiptOf(hash: string): Promise<Receipt | undefined>
  currentFees(baseFee: bigint): Promise<Fees>
  estimate(request: SendRequest): Promise<bigint>
}

/** Percentage that is added to a gas estimate, because the state may change before the transaction is mined. */
const ESTIMATE_MARGIN_PERCENT = 20n

export function makeLaneNode({
  client,
  account,
  onTrouble,
}: {
  readonly client: PublicClient
  readonly account: LocalAccount
  readonly onTrouble?: (where: 'rpc', error: unknown) => void
}): LaneNode {
  async function rpc<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      onTrouble?.('rpc', error)
      throw new Fault('CHAIN_UNAVAILABLE', `the chain did not answer: ${shortly(error)}`, {
        retryable: true,
        cause: error,
      })
    }
  }

  async function block(number: number | 'latest'): Promise<Head | undefined> {
    const found = await rpc(() =>
      client.request({
        method: 'eth_getBlockByNumber',
        params: [number === 'latest' ? number : numberToHex(number), false],
      }),
    )
    if (found === null || found.number === null || found.hash === null) return undefined
    return {
      number: hexToNumber(found.number),
      hash: found.hash,
      parentHash: found.parentHash,
      baseFee: found.baseFeePerGas == null ? 0n : hexToBigInt(found.baseFeePerGas),
    }
  }

  async function headBlock(): Promise<Head> {
    const head = await block('latest')
    if (head !== undefined) return head
    throw new Fault('CHAIN_UNAVAILABLE', 'the Ethereum node does not return its newest block', {
      retryable: true,
    })
  }

  async function transactionCount(seen: 'latest' | 'pending' = 'latest'): Promise<number> {
    const count = await rpc(() =>
      client.request({ method: 'eth_getTransactionCount', params: [account.address, seen] }),
    )
    return hexToNumber(count)
  }

  async function receiptOf(hash: string): Promise<Receipt | undefined> {
    const found = await rpc(() =>
      client.request({ method: 'eth_getTransactionReceipt', params: [hash as Hex] }),
    )
    if (found === null || found.blockNumber === null) return undefined
    return {
      txHash: hash,
      blockNumber: hexToNumber(found.blockNumber),
      blockHash: found.blockHash,
      succeeded: hexToNumber(found.status) === 1,
      gasUsed: hexToNumber(found.gasUsed),
      logs: found.logs.map((log) => ({
        address: toAddress(log.address),
        topics: log.topics,
        data: log.data,
      })),
    }
  }

  async function currentFees(baseFee: bigint): Promise<Fees> {
    const tip = await rpc(() => wantedTip(client))
    return freshFees(baseFee, hexToBigInt(tip))
  }

  async function estimate(request: SendRequest): Promise<bigint> {
    try {
      const gas = await client.estimateGas({
        account: account.address,
        to: request.to as Hex,
        data: request.data as Hex,
        value: request.value ?? 0n,
      })
      return (gas * (100n + ESTIMATE_MARGIN_PERCENT)) / 100n
    } catch (error) {
      const reverts = /revert/i.test(everythingSaid(error))
      if (!reverts) onTrouble?.('rpc', error)
      throw new Fault(reverts ? 'CHAIN_REVERTS' : 'CHAIN_UNAVAILABLE', shortly(error), {
        retryable: !reverts,
        cause: error,
      })
    }
  }

  return { block, headBlock, transactionCount, receiptOf, currentFees, estimate }
}
