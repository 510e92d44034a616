/** Reads headers, logs and receipts of blocks from a node. */

import type { Hex } from 'viem'
import type { BlockMark } from '#domain/chain-event.ts'
import { Fault } from '#domain/fault.ts'
import { type Address, toAddress } from '#domain/ids.ts'
import { partsOf } from '#domain/parts-of.ts'
import type { ChainLog } from './chain-log.ts'
import { asked, type ChainClient } from './clients.ts'

/** Maximum number of concurrent requests for headers or receipts. */
const REQUESTS_AT_ONCE = 8

export type Header = BlockMark & {
  readonly parentHash: string
  readonly bloom: Hex | undefined
  /** True if the block contains no transactions. */
  readonly isEmpty: boolean
}

export type LogFilter = {
  readonly fromBlock?: Hex
  readonly toBlock?: Hex
  readonly blockHash?: string
  readonly address?: readonly Hex[]
  /** Accepted topics by their position in a log; null matches any topic. */
  readonly topics?: readonly (readonly Hex[] | null)[]
}

type RpcLog = {
  readonly address: Hex
  readonly topics: readonly Hex[]
  readonly data: Hex
  readonly blockNumber: Hex | null
  readonly blockHash: Hex | null
  readonly transactionHash: Hex | null
  readonly logIndex: Hex | null
}

export async function logsOf(node: ChainClient, filter: LogFilter): Promise<ChainLog[]> {
  const found = await ask<RpcLog[]>(node, 'eth_getLogs', [filter])
  return found.flatMap(minedLog)
}

const WORD = /^0x[0-9a-f]{64}$/i
/** Matches hex numbers that JavaScript represents exactly. */
const QUANTITY = /^0x[0-9a-f]{1,13}$/i

/**
 * Converts a log from a node's answer. Returns an empty list if the log is not in a mined block. If the log is not
 * valid hex, throws a retryable fault, because another node may return the log correctly.
 */
function minedLog(log: RpcLog): ChainLog[] {
  const { blockNumber, blockHash, transactionHash, logIndex } = log
  if (blockNumber === null || blockHash === null) return []
  if (transactionHash === null || logIndex === null) return []
  const words = [blockHash, transactionHash, ...log.topics]
  const isHex = words.every((word) => WORD.test(word)) && /^0x(?:[0-9a-f]{2})*$/i.test(log.data)
  if (!isHex || ![blockNumber, logIndex].every((number) => QUANTITY.test(number))) {
    throw new Fault('CHAIN_INCONSISTENT', `block ${Number(blockNumber)} has an invalid log`, {
      retryable: true,
    })
  }
  return [
    {
      address: toAddress(log.address),
      topics: log.topics,
      data: log.data,
      blockNumber: Number(blockNumber),
      blockHash,
      txHash: transactionHash,
      logIndex: Number(logIndex),
    },
  ]
}

type RpcReceipt = { readonly transactionHash: Hex; readonly logs: readonly RpcLog[] }

/**
 * Returns every log of a block, read from the receipts of its transactions. Nodes return receipts even if the block's
 * logs are too many for one answer. Returns undefined if the node lacks the block or a receipt.
 */
export async function receiptLogsOf(
  node: ChainClient,
  { number, hash }: Header,
): Promise<ChainLog[] | undefined> {
  const block = await ask<{ hash: Hex | null; transactions: readonly Hex[] } | null>(
    node,
    'eth_getBlockByNumber',
    [hexOf(number), false],
  )
  if (block === null || block.hash !== hash) return undefined
  const receipts = await receiptsOf(node, number, block.transactions)
  const byHash = new Map(receipts.map((receipt) => [receipt?.transactionHash, receipt]))
  const logs: ChainLog[] = []
  for (const transaction of block.transactions) {
    const receipt = byHash.get(transaction)
    if (receipt === undefined || receipt === null) return undefined
    logs.push(...receipt.logs.flatMap(minedLog))
  }
  return logs
}

async function receiptsOf(
  node: ChainClient,
  number: number,
  transactions: readonly Hex[],
): Promise<readonly (RpcReceipt | null)[]> {
  try {
    const all = await ask<RpcReceipt[] | null>(node, 'eth_getBlockReceipts', [hexOf(number)])
    if (all !== null) return all
  } catch {
    // Ignore the error: some nodes do not support `eth_getBlockReceipts`, and some refuse it for a large block. Request
    // single receipts below. If these requests fail too, their error is thrown.
  }
  const one = (hash: Hex) => ask<RpcReceipt | null>(node, 'eth_getTransactionReceipt', [hash])
  const receipts: (RpcReceipt | null)[] = []
  for (const part of partsOf(transactions, REQUESTS_AT_ONCE)) {
    receipts.push(...(await Promise.all(part.map(one))))
  }
  return receipts
}

/** Returns whether the address had code as of a block. */
export async function hasCode(
  node: ChainClient,
  address: Address,
  block: number,
): Promise<boolean> {
  return (await ask<Hex>(node, 'eth_getCode', [address, hexOf(block)])).length > 2
}

function ask<Answer>(
  node: ChainClient,
  method: string,
  params: readonly unknown[],
): Promise<Answer> {
  return asked(node.viem.request({ method, params } as never) as Promise<Answer>)
}

/** Returns the headers of these blocks; undefined if the node does not have one of them. */
export async function headersOf(
  node: ChainClient,
  wanted: readonly number[],
): Promise<Map<number, Header> | undefined> {
  const headers = new Map<number, Header>()
  for (const part of partsOf(wanted, REQUESTS_AT_ONCE)) {
    for (const header of await Promise.all(part.map((number) => headerOf(node, number)))) {
      if (header === undefined) return undefined
      headers.set(header.number, header)
    }
  }
  return headers
}

type RpcBlock = {
  readonly number: Hex | null
  readonly hash: Hex | null
  readonly parentHash: Hex
  readonly timestamp: Hex
  readonly logsBloom?: Hex | null
  readonly transactions?: readonly unknown[]
}

export async function headerOf(
  node: ChainClient,
  block: number | 'latest',
): Promise<Header | undefined> {
  const at = block === 'latest' ? block : hexOf(block)
  const found = await ask<RpcBlock | null>(node, 'eth_getBlockByNumber', [at, false])
  if (found === null || found.number === null || found.hash === null) return undefined
  return {
    number: Number(found.number),
    hash: found.hash,
    parentHash: found.parentHash,
    atSec: Number(found.timestamp),
    bloom: found.logsBloom ?? undefined,
    isEmpty: found.transactions?.length === 0,
  }
}

export function hexOf(value: number): Hex {
  return `0x${value.toString(16)}`
}

/** Returns the numbers of a range, both ends included. */
export function numbers(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index)
}
