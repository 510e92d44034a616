/**
 * The nodes of a simulated chain: JSON-RPC over the scheduler, with requests that fail, get lost, or reach a node with
 * old data.
 */

import {
  type Abi,
  createPublicClient,
  createTransport,
  defineChain,
  type EIP1193RequestFn,
  type Hex,
  numberToHex,
  RpcRequestError,
  toFunctionSelector,
} from 'viem'
import { bitsOf } from '#chain/bloom.ts'
import type { ChainClient } from '#chain/clients.ts'
import { marketAbi } from '#contracts/artifacts/Market.abi.ts'
import { type Address, toAddress } from '#domain/ids.ts'
import { CHAIN_HEADERS_PER_RANGE_MAX } from '#domain/limits.ts'
import { NATIVE_CURRENCY } from '#domain/native-currency.ts'
import { type Random, randomFrom } from '../../support/random.ts'
import type { Faults } from '../faults.ts'
import type { Life, Scheduler } from '../scheduler.ts'
import { type Block, type Node, RpcTrouble, type SimulatedChain } from './chain.ts'
import type { ModelLog } from './contracts.ts'
import { ReadReverts } from './factory.ts'

type RpcPorts = {
  readonly chain: SimulatedChain
  readonly scheduler: Scheduler
  readonly faults: Faults
  readonly life: Life
  readonly seed: number
  /** Returns the sender of a transaction. */
  readonly senderOf: (hash: Hex) => Address
  /** True if each request may reach a different node. */
  readonly isBalanced: boolean
}

const TIMEOUT_US = 5_000_000
const TIP = 1_000_000_000n
const BALANCE = 10n ** 24n
const GAS = 500_000
const GAS_WITHOUT_PAYOUTS = 150_000
const SELECTOR_CHARS = 10
const FILTER_BYTES = 256
/**
 * Length of the bytecode at the start of the data, in the call that reads code sizes (see `callOf`). The account
 * addresses follow the bytecode.
 */
const CODE_SIZES_BYTES = 30
const NO_ANSWER = 'the node does not answer'

type Params = readonly unknown[]

const selectorOf = (abi: Abi, name: string) =>
  toFunctionSelector(abi.find((item) => item.type === 'function' && item.name === name) as never)
/**
 * Selectors of the functions that settle a market: `settle`, which the exchange calls, and `settleMarket`, which needs
 * a signature.
 */
const SETTLE_MARKET = [selectorOf(marketAbi, 'settle'), selectorOf(marketAbi, 'settleMarket')]

/** Makes a client of the simulated nodes for one process. */
export function simulatedClient(ports: RpcPorts): ChainClient {
  const { chain, seed } = ports
  const random = randomFrom(Math.imul(seed + 29, 0x2c1b3c6d))
  const { chainId } = chain.contracts.at
  const definition = defineChain({
    id: chainId,
    name: 'simulated',
    nativeCurrency: NATIVE_CURRENCY,
    rpcUrls: { default: { http: [] } },
  })
  let preferred = 0
  function clientOf(pinned: Node | undefined): ChainClient {
    const request = (async ({ method, params = [] }: { method: string; params?: Params }) => {
      const node = pinned ?? (ports.isBalanced ? random.pick(chain.nodes) : chain.nodes[preferred]!)
      return requestOf(ports, random, node, method, params)
    }) as EIP1193RequestFn
    const transport = () =>
      createTransport({
        key: 'simulated',
        name: 'simulated',
        type: 'simulated',
        request,
        retryCount: 0,
      })
    return {
      chainId,
      viem: createPublicClient({ chain: definition, transport, cacheTime: 0 }),
      pinned: () => clientOf(pinned ?? chain.nodes[preferred]!),
      leave() {
        preferred = (preferred + 1) % chain.nodes.length
      },
    }
  }
  return clientOf(undefined)
}

/** Sends a request to a node; it arrives and is answered after some time, or not at all. */
function requestOf(
  ports: RpcPorts,
  random: Random,
  node: Node,
  method: string,
  params: Params,
): Promise<unknown> {
  const { scheduler, faults, life } = ports
  return new Promise((resolve, reject) => {
    const fails = faults.strikes('rpc-fails')
    const isLost = faults.strikes('rpc-lost')
    if (fails) {
      scheduler.after(random.int(1_000, 300_000), () => reject(new Error(NO_ANSWER)), life)
      return
    }
    if (isLost) scheduler.after(TIMEOUT_US, () => reject(new Error(NO_ANSWER)), life)
    // The node handles a sent request even if the sender ends meanwhile.
    scheduler.after(random.int(200, 20_000), () => {
      let act: () => void
      try {
        const answer = answerOf(ports, node, method, params)
        act = () => resolve(answer)
      } catch (error) {
        if (!(error instanceof RpcTrouble || error instanceof RpcRequestError)) {
          scheduler.fail(error)
          return
        }
        act = () => reject(error instanceof RpcTrouble ? troubleOf(-32_000, error.message) : error)
      }
      if (!isLost) scheduler.after(random.int(200, 20_000), act, life)
    })
  })
}

function troubleOf(code: number, message: string, data?: Hex): RpcRequestError {
  const error = { code, message, ...(data === undefined ? {} : { data }) }
  return new RpcRequestError({ body: {}, error, url: 'http://simulated' })
}

function answerOf(ports: RpcPorts, node: Node, method: string, params: Params): unknown {
  const { chain, faults } = ports
  const { tip } = node
  switch (method) {
    case 'eth_chainId':
      return numberToHex(chain.contracts.at.chainId)
    case 'eth_blockNumber':
      return numberToHex(tip.number)
    case 'eth_getBlockByNumber': {
      const block = params[0] === 'latest' ? tip : chain.blockAt(Number(params[0]), tip)
      return block === undefined ? null : headerOf(block, chain.hasFilters)
    }
    case 'eth_getTransactionCount': {
      const from = toAddress(String(params[0]))
      const count =
        params[1] === 'pending' ? chain.pendingCount(from, node) : (tip.counts.get(from) ?? 0)
      return numberToHex(count)
    }
    case 'eth_getBalance':
      return numberToHex(BALANCE)
    case 'eth_maxPriorityFeePerGas':
      return numberToHex(TIP)
    case 'eth_sendRawTransaction':
      return chain.submit(params[0] as Hex, ports.senderOf, node)
    case 'eth_getTransactionReceipt':
      return faults.strikes('receipt-missing') ? null : receiptOf(chain, tip, params[0] as Hex)
    case 'eth_call':
      return callOf(chain, tip, params)
    case 'eth_estimateGas':
      return gasOf(chain, tip, params)
    case 'eth_getCode': {
      const block = blockOf(chain, tip, params[1])
      return block.markets.has(toAddress(String(params[0]))) ? '0x00' : '0x'
    }
    case 'eth_getLogs':
      return logsOf(ports, tip, params[0] as Filter)
    default:
      throw troubleOf(-32_601, `the method ${method} is not supported`)
  }
}

const filters = new WeakMap<Block, Hex>()

/** Returns the filter over the addresses and topics of a block's logs. */
function filterOf(block: Block): Hex {
  const known = filters.get(block)
  if (known !== undefined) return known
  const filter = Buffer.alloc(FILTER_BYTES)
  for (const { address, topics } of entriesOf(block).flatMap(({ logs }) => logs)) {
    for (const bit of [address, ...topics].flatMap(bitsOf)) {
      const at = FILTER_BYTES - 1 - (bit >> 3)
      filter[at] = filter[at]! | (1 << (bit & 7))
    }
  }
  const hex: Hex = `0x${filter.toString('hex')}`
  filters.set(block, hex)
  return hex
}

function headerOf(block: Block, hasFilters: boolean) {
  return {
    number: numberToHex(block.number),
    hash: block.hash,
    parentHash: block.parent?.hash ?? `0x${'0'.repeat(64)}`,
    timestamp: numberToHex(block.atSec),
    baseFeePerGas: numberToHex(block.baseFee),
    logsBloom: hasFilters ? filterOf(block) : `0x${'00'.repeat(FILTER_BYTES)}`,
    transactions: entriesOf(block).map(({ hash }) => hash),
  }
}

/** Returns the transactions of a block with their logs. All actions of traders are shown as one transaction. */
function entriesOf(block: Block): { readonly hash: Hex; readonly logs: readonly ModelLog[] }[] {
  const own = block.mined.map(({ transaction: { hash }, logs }) => ({ hash, logs }))
  if (block.actLogs.length === 0) return own
  return [{ hash: `0xac${block.hash.slice(4)}` as Hex, logs: block.actLogs }, ...own]
}

function rpcLogsOf(block: Block) {
  let logIndex = 0
  return entriesOf(block).flatMap(({ hash, logs }) =>
    logs.map(({ address, topics, data }) => ({
      ...{ address, topics, data, transactionHash: hash, blockHash: block.hash },
      ...{ blockNumber: numberToHex(block.number), logIndex: numberToHex(logIndex++) },
      ...{ transactionIndex: '0x0', removed: false },
    })),
  )
}

function receiptOf(chain: SimulatedChain, tip: Block, hash: Hex): unknown {
  for (let at: Block | undefined = tip; at !== undefined; at = at.parent) {
    const found = at.mined.find(({ transaction }) => transaction.hash === hash)
    if (found !== undefined) {
      return {
        ...{ transactionHash: hash, blockNumber: numberToHex(at.number), blockHash: at.hash },
        ...{ status: found.succeeded ? '0x1' : '0x0', gasUsed: numberToHex(found.gasUsed) },
        logs: rpcLogsOf(at).filter(({ transactionHash }) => transactionHash === hash),
      }
    }
    if (tip.number - at.number > RECEIPTS_DEPTH && chain.blocks[at.number] === at) break
  }
  return null
}

/** Blocks in which a receipt is searched. */
const RECEIPTS_DEPTH = 2_000

function blockOf(chain: SimulatedChain, tip: Block, at: unknown): Block {
  if (at === undefined || at === 'latest' || at === 'pending') return tip
  if (typeof at === 'object' && at !== null) {
    const { blockHash } = at as { blockHash: Hex }
    for (let each: Block | undefined = tip; each !== undefined; each = each.parent) {
      if (each.hash === blockHash) return each
      if (tip.number - each.number > RECEIPTS_DEPTH) break
    }
    throw new RpcTrouble('hash is not currently canonical')
  }
  const block = chain.blockAt(Number(at), tip)
  if (block === undefined) throw new RpcTrouble('header not found')
  return block
}

function callOf(chain: SimulatedChain, tip: Block, params: Params): Hex {
  const { to, from, data } = params[0] as { to?: Hex; from?: Hex; data: Hex }
  const block = blockOf(chain, tip, params[1])
  const { contracts } = chain
  // A call without a target runs code that returns the code sizes of accounts (`chain/accounts-with-code.ts`). No
  // trader has code, so all sizes are zero.
  if (to === undefined) return `0x${'00'.repeat(data.length / 2 - 1 - CODE_SIZES_BYTES)}`
  const target = toAddress(to)
  if (!contracts.isChange(target, data)) {
    try {
      return contracts.read(target, data, chain.funds(block))
    } catch (error) {
      if (!(error instanceof ReadReverts)) throw error
      throw troubleOf(3, 'execution reverted', error.revert)
    }
  }
  return executedCall(chain, block, { to: target, from: toAddress(from ?? to), data }).returned
}

function executedCall(
  chain: SimulatedChain,
  block: Block,
  { to, from, data }: { readonly to: Address; readonly from: Address; readonly data: Hex },
) {
  const executed = chain.call(to, from, data, block) ?? { returned: '0x' as const }
  if ('revert' in executed) throw troubleOf(3, 'execution reverted', executed.revert)
  return executed
}

function gasOf(chain: SimulatedChain, tip: Block, params: Params): Hex {
  const { to, from, data } = params[0] as { to: Hex; from?: Hex; data: Hex }
  executedCall(chain, tip, { to: toAddress(to), from: toAddress(from ?? to), data })
  // As a real node does, estimates the least gas with which the call succeeds. A settlement also succeeds with too
  // little gas to report the payouts. So the estimate for a settlement does not cover the payouts.
  const isSettlement = SETTLE_MARKET.includes(data.slice(0, SELECTOR_CHARS) as Hex)
  return numberToHex(isSettlement ? GAS_WITHOUT_PAYOUTS : GAS)
}

type Filter = {
  readonly fromBlock?: Hex
  readonly toBlock?: Hex | 'latest'
  readonly blockHash?: Hex
  readonly address?: Hex | readonly Hex[]
  readonly topics?: readonly (Hex | readonly Hex[] | null)[]
}

function logsOf({ chain, faults }: RpcPorts, tip: Block, filter: Filter): unknown {
  const { fromBlock, toBlock, blockHash } = filter
  const blocks: Block[] = []
  if (blockHash !== undefined) blocks.push(blockOf(chain, tip, { blockHash }))
  else {
    const from = Number(fromBlock ?? 0)
    const to = toBlock === undefined || toBlock === 'latest' ? tip.number : Number(toBlock)
    for (let number = from; number <= Math.min(to, tip.number); number++) {
      const block = chain.blockAt(number, tip)
      if (block !== undefined) blocks.push(block)
    }
  }
  const addresses = filter.address === undefined ? undefined : [filter.address].flat()
  const isOf = (address: Hex) =>
    addresses === undefined ||
    addresses.some((each) => each.toLowerCase() === address.toLowerCase())
  const hasTopics = (topics: readonly Hex[]) =>
    (filter.topics ?? []).every(
      (wanted, at) => wanted === null || [wanted].flat().includes(topics[at]!),
    )
  const found = blocks
    .flatMap(rpcLogsOf)
    .filter(({ address, topics }) => isOf(address) && hasTopics(topics))
  // For a single block, a node reads the block's receipts and finds all logs. For a range, it reads an index that may
  // still lack logs of the newest blocks.
  const settled = found.filter(
    ({ blockNumber }) => Number(blockNumber) <= tip.number - CHAIN_HEADERS_PER_RANGE_MAX,
  ).length
  const isOfRange = blockHash === undefined && found.length > settled
  if (!isOfRange || !faults.strikes('logs-partial')) return found
  const kept = found.slice(0, faults.of('logs-partial').int(settled, found.length - 1))
  // A block's filter lets a reader detect that all logs of the block are missing, but not that only some are missing.
  // So if blocks have filters, the node leaves out whole blocks, which a reader can detect.
  const lacking = found[kept.length]?.blockHash
  return chain.hasFilters ? kept.filter((log) => log.blockHash !== lacking) : kept
}
