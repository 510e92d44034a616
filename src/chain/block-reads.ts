/** Headers and logs of blocks, as a node tells them. */

import type { Hex } from 'viem'
import type { BlockMark } from '#domain/chain-event.ts'
import { toAddress } from '#domain/ids.ts'
import type { ChainLog } from './chain-log.ts'
import { asked, type ChainClient } from './clients.ts'

/** Requests for headers under way at once. */
const HEADERS_AT_ONCE = 8

export type Header = BlockMark & { readonly parentHash: string; readonly bloom: Hex | undefined }

type LogFilter = {
  readonly fromBlock?: Hex
  readonly toBlock?: Hex
  readonly blockHash?: string
  readonly address?: readonly Hex[]
  readonly topics?: readonly (readonly Hex[])[]
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
  const request = node.viem.request({
    method: 'eth_getLogs',
    params: [filter as never],
  }) as Promise<unknown>
  const found = (await asked(request)) as RpcLog[]
  return found.flatMap((log) => {
    const { blockNumber, blockHash, transactionHash, logIndex } = log
    if (blockNumber === null || blockHash === null) return []
    if (transactionHash === null || logIndex === null) return []
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
  })
}

/** The headers of these blocks; undefined when the node lacks one of them. */
export async function headersOf(
  node: ChainClient,
  wanted: readonly number[],
): Promise<Map<number, Header> | undefined> {
  const headers = new Map<number, Header>()
  for (let start = 0; start < wanted.length; start += HEADERS_AT_ONCE) {
    const part = wanted.slice(start, start + HEADERS_AT_ONCE)
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
}

export async function headerOf(
  node: ChainClient,
  block: number | 'latest',
): Promise<Header | undefined> {
  const request = node.viem.request({
    method: 'eth_getBlockByNumber',
    params: [block === 'latest' ? block : hexOf(block), false],
  }) as Promise<unknown>
  const found = (await asked(request)) as RpcBlock | null
  if (found === null || found.number === null || found.hash === null) return undefined
  return {
    number: Number(found.number),
    hash: found.hash,
    parentHash: found.parentHash,
    atSec: Number(found.timestamp),
    bloom: found.logsBloom ?? undefined,
  }
}

export function hexOf(value: number): Hex {
  return `0x${value.toString(16)}`
}
