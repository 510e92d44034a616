/**
 * A simulated chain node whose blocks contain only logs. A test fills the blocks with any content. The node answers
 * only the requests of the chain reader.
 */

import { type Hex, keccak256, stringToHex } from 'viem'

export type BareLog = {
  readonly address: string
  readonly topics: readonly Hex[]
  readonly data: Hex
}

type Block = {
  readonly number: number
  readonly hash: Hex
  readonly parentHash: Hex
  readonly atSec: number
  /** Logs of one transaction each. */
  readonly transactions: readonly { readonly hash: Hex; readonly logs: readonly BareLog[] }[]
}

export type FakeChain = {
  request(method: string, params: unknown[]): Promise<unknown>
  /** One block of these transactions. */
  mine(transactions: readonly (readonly BareLog[])[]): void
  /** Removes the newest blocks; blocks mined afterwards have other hashes. */
  drop(blocks: number): void
  height(): number
}

type Filter = {
  readonly fromBlock?: string
  readonly toBlock?: string
  readonly blockHash?: string
  readonly address?: readonly string[]
  readonly topics?: readonly (readonly string[])[]
}

const START_SEC = 1_800_000_000
/** A Bloom filter that matches every log, so the reader must check each block for missing logs. */
const FULL_BLOOM = `0x${'ff'.repeat(256)}`

export function fakeChain(
  chainId: number,
  call: (to: string, data: string) => string,
  logsMax: number,
): FakeChain {
  const genesis = hashOf('genesis')
  const blocks: Block[] = [
    { number: 0, hash: genesis, parentHash: genesis, atSec: START_SEC, transactions: [] },
  ]
  let made = 0

  function logsOf(block: Block): object[] {
    let logIndex = 0
    return block.transactions.flatMap(({ hash, logs }) =>
      logs.map((log) => ({
        ...log,
        blockNumber: hex(block.number),
        blockHash: block.hash,
        transactionHash: hash,
        logIndex: hex(logIndex++),
      })),
    )
  }

  function found({ fromBlock, toBlock, blockHash, address, topics }: Filter): object[] {
    const wanted = blocks.filter(({ number, hash }) =>
      blockHash === undefined
        ? number >= Number(fromBlock) && number <= Number(toBlock)
        : hash === blockHash,
    )
    const logs = wanted.flatMap(logsOf).filter((log) => {
      const { address: at, topics: told } = log as BareLog
      if (address !== undefined && !address.includes(at)) return false
      return topics?.[0] === undefined || topics[0].includes(told[0] ?? '')
    })
    if (logs.length > logsMax) {
      throw Object.assign(new Error(`query returned more than ${logsMax} results`), {
        code: -32005,
      })
    }
    return logs
  }

  const answers: Record<string, (...params: never[]) => unknown> = {
    eth_chainId: () => hex(chainId),
    eth_getBlockByNumber: (tag: string) => {
      const block = tag === 'latest' ? blocks.at(-1) : blocks[Number(tag)]
      if (block === undefined) return null
      return {
        number: hex(block.number),
        hash: block.hash,
        parentHash: block.parentHash,
        timestamp: hex(block.atSec),
        logsBloom: block.number % 8 === 0 ? FULL_BLOOM : null,
        transactions: block.transactions.map(({ hash }) => hash),
      }
    },
    eth_getLogs: found,
    eth_getBlockReceipts: (tag: string) => {
      const block = blocks[Number(tag)]
      if (block === undefined) return null
      const logs = logsOf(block) as { transactionHash: string }[]
      return block.transactions.map(({ hash }) => ({
        transactionHash: hash,
        logs: logs.filter(({ transactionHash }) => transactionHash === hash),
      }))
    },
    eth_call: ({ to, data }: { to: string; data: string }) => call(to.toLowerCase(), data),
    eth_getCode: () => '0x',
  }

  return {
    async request(method, params) {
      const answer = answers[method]
      if (answer === undefined) throw new Error(`a fake chain has no ${method}`)
      return answer(...(params as never[]))
    },
    mine(transactions) {
      const parent = blocks.at(-1)
      if (parent === undefined) throw new Error('there is no genesis')
      blocks.push({
        number: parent.number + 1,
        hash: hashOf(`block ${++made}`),
        parentHash: parent.hash,
        atSec: parent.atSec + 2,
        transactions: transactions.map((logs) => ({ hash: hashOf(`transaction ${++made}`), logs })),
      })
    },
    drop(count) {
      blocks.length = Math.max(1, blocks.length - count)
    },
    height: () => blocks.length - 1,
  }
}

function hashOf(text: string): Hex {
  return keccak256(stringToHex(text))
}

function hex(value: number): string {
  return `0x${value.toString(16)}`
}
