/**
 * A model of a chain for tests of the accounts: blocks with the funds of all owners and the settled trades. A reorg can
 * remove blocks. Like the adapter of a real chain, the model records which block it has reported.
 */

import type {
  BlockPlace,
  ChainFunds,
  FundsChain,
  FundsQuestion,
  FundsStep,
  FundsToken,
  SettledTrade,
} from '#domain/funds.ts'
import type { Address } from '#domain/ids.ts'
import { later } from './accounts-fixture.ts'

export type Wallet = {
  readonly balance: bigint
  readonly allowance: bigint
  readonly nonce: bigint
  readonly isApproved: boolean
  readonly tokens: ReadonlyMap<FundsToken, bigint>
}

export const EMPTY: Wallet = {
  balance: 0n,
  allowance: 0n,
  nonce: 0n,
  isApproved: false,
  tokens: new Map(),
}

type Block = {
  readonly place: BlockPlace
  readonly wallets: ReadonlyMap<Address, Wallet>
  readonly touched: ReadonlySet<Address>
  readonly settled: readonly SettledTrade[]
}

const KEPT_BLOCKS = 64
/**
 * Maximum number of stored chain views: one for each step that may be in flight, and one for the last completed step.
 */
const KEPT_VIEWS = 8

/** State of the chain at the time of a step. */
export type ChainView = {
  readonly wallets: ReadonlyMap<Address, Wallet>
  readonly minedIn: ReadonlyMap<string, number>
}

export function modelChain(chainId: number) {
  let forks = 0
  let blocks: Block[] = [
    { place: { block: 1, blockHash: '0x1' }, wallets: new Map(), touched: new Set(), settled: [] },
  ]
  let wallets = new Map<Address, Wallet>()
  let touched = new Set<Address>()
  let settled: Omit<SettledTrade, 'block'>[] = []
  /**
   * `told` is the newest block that a step has reported. `rewound` is the lowest block that a reorg has replaced since
   * that step; undefined if there is none.
   */
  let told = 0
  let rewound: number | undefined
  /** Number of the block in which each settled trade was mined, by the key of the trade. */
  const minedIn = new Map<string, number>()

  const views = new Map<string, ChainView>()

  const head = () => blocks.at(-1)!
  const at = (block: number) => blocks.find(({ place }) => place.block === block)

  const chain = {
    chainId,
    minedIn,
    isAway: false,
    /** Returns the state that the step with this block reported, even if a reorg has removed the block since. */
    viewOf: ({ blockHash }: BlockPlace): ChainView => views.get(blockHash)!,
    /** Returns the block of a request. Throws if the chain is unavailable or the block was replaced. */
    there(place: BlockPlace): BlockPlace {
      if (chain.isAway) throw new Error('the chain is away')
      if (at(place.block)?.place.blockHash !== place.blockHash) throw new Error('no such block')
      return place
    },
    get head() {
      return head().place.block
    },
    /** Returns a wallet after all transactions, mined or not. */
    wallet: (owner: Address): Wallet => wallets.get(owner) ?? EMPTY,
    walletAt: (owner: Address, block: number): Wallet => at(block)?.wallets.get(owner) ?? EMPTY,
    change(owner: Address, change: Partial<Wallet>) {
      wallets.set(owner, { ...chain.wallet(owner), ...change })
      touched.add(owner)
    },
    hold(owner: Address, token: FundsToken, more: bigint) {
      const tokens = new Map(chain.wallet(owner).tokens)
      tokens.set(token, (tokens.get(token) ?? 0n) + more)
      chain.change(owner, { tokens })
    },
    settle(trade: Omit<SettledTrade, 'block'>) {
      settled.push(trade)
    },
    /** True if the trade is settled in a block, or will be settled in the next block. */
    hasSettled: (tradeKey: string): boolean =>
      minedIn.has(tradeKey) || settled.some((trade) => trade.tradeKey === tradeKey),
    mine() {
      const block = head().place.block + 1
      const place = { block, blockHash: `0x${block}-${forks}` }
      const mined = settled.map((trade) => ({ ...trade, block }))
      for (const { tradeKey } of mined) minedIn.set(tradeKey, block)
      blocks.push({ place, wallets: new Map(wallets), touched, settled: mined })
      if (blocks.length > 2 * KEPT_BLOCKS) blocks = blocks.slice(-KEPT_BLOCKS)
      touched = new Set()
      settled = []
    },
    /** Removes this many blocks, and all changes that the next block would have contained. */
    reorg(depth: number) {
      forks++
      for (let left = Math.min(depth, blocks.length - 1); left > 0; left--) {
        const { place, settled: gone } = blocks.pop()!
        for (const { tradeKey } of gone) minedIn.delete(tradeKey)
        if (place.block <= told) rewound = Math.min(rewound ?? place.block, place.block)
      }
      wallets = new Map(head().wallets)
      touched = new Set()
      settled = []
    },
    /** Makes the next step report unknown changes. */
    loseTrack() {
      told = 0
      rewound = 0
    },
    /** Returns a reader that has just started. */
    port(): FundsChain {
      told = 0
      rewound = undefined
      return { chainId, step, read }
    },
  }

  function step(watched: ReadonlySet<Address>): Promise<FundsStep> {
    return later(() => {
      if (chain.isAway) throw new Error('the chain is away')
      const from = rewound === undefined ? told : Math.min(told, rewound - 1)
      const news = told === 0 ? [] : blocks.filter(({ place }) => place.block > from)
      const moved = new Set<Address>()
      for (const block of news) {
        for (const owner of block.touched) if (watched.has(owner)) moved.add(owner)
      }
      const answer: FundsStep = {
        ...head().place,
        settled: news.flatMap((block) => block.settled),
        touched: [...moved],
        ...(rewound === undefined ? {} : { rewoundTo: rewound }),
      }
      told = head().place.block
      rewound = undefined
      views.delete(answer.blockHash)
      views.set(answer.blockHash, { wallets: head().wallets, minedIn: new Map(minedIn) })
      if (views.size > KEPT_VIEWS) views.delete(views.keys().next().value!)
      return answer
    })
  }

  function read(questions: readonly FundsQuestion[], place: BlockPlace): Promise<ChainFunds[]> {
    return later(() => {
      const { block } = chain.there(place)
      return questions.map(({ owner, tokens }) => {
        const { balance, allowance, nonce, isApproved, tokens: held } = chain.walletAt(owner, block)
        const asked = tokens.map((token) => [token, held.get(token) ?? 0n] as const)
        return { owner, block, balance, allowance, nonce, isApproved, tokens: new Map(asked) }
      })
    })
  }

  return chain
}

export type ModelChain = ReturnType<typeof modelChain>
