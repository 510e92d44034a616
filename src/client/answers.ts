/**
 * What the API answers, as types. Integers are numbers, exact because the server never lets them
 * leave the safe range, except the totals of a book's levels: those are bigint.
 */

import type { ErrorCode } from './sibyl-error.ts'

export type PlacedOrder = {
  /** The EIP-712 digest: the order's identity. */
  readonly orderHash: string
  readonly status: 'accepted'
  /** How many resting orders it met at once. */
  readonly matches: number
  /** Unix seconds. */
  readonly timestamp: number
  /** There when the same signed order had been accepted before; this is the first answer again. */
  readonly duplicate?: true
  /** Of `IOC` and `FOK`: how much was matched at once; the rest is cancelled. */
  readonly filled?: number
} & SeenFrom

/** A read of that market with this `seq` as `minSeq` sees what was done; the client sends it by itself. */
export type SeenFrom = { readonly marketId?: string; readonly seq?: number }

export type CancelledOrder = {
  readonly status: 'cancelled'
  readonly orderHash: string
  /** Matched and unsettled size: it may still settle, and never returns to the book. */
  readonly pendingSize?: number
} & SeenFrom

export type CancelledOrders = {
  readonly status: 'cancelled'
  readonly orderHashes: readonly string[]
  readonly count: number
  /** Those of them that have fills which are not settled. */
  readonly pending?: readonly { readonly orderHash: string; readonly pendingSize: number }[]
} & SeenFrom

export type ValidatedOrder = {
  readonly valid: boolean
  /** The digest that the server hashed; null when the values cannot be hashed. */
  readonly orderHash: string | null
  /** Who signed that digest; null when no key can have made the signature. */
  readonly recovered: string | null
  /** Everything that is wrong with it. */
  readonly errors: readonly {
    readonly code: ErrorCode
    readonly error: string
    readonly field?: string
  }[]
}

export type OpenOrder = {
  readonly orderHash: string
  readonly marketId: string
  readonly trader: string
  /** 0 = BUY, 1 = SELL. */
  readonly side: 0 | 1
  /** 0 = YES, 1 = NO. */
  readonly outcome: 0 | 1
  readonly price: number
  readonly size: number
  readonly remainingSize: number
  readonly filled: number
  readonly timestamp: number
  readonly expiration: number
  readonly chainId: number
}

/** A market in a line. Pairs are of YES and NO; prices and volumes have 6 decimals. */
export type Ticker = {
  readonly status: 'open' | 'expired' | 'resolved' | 'withdrawn'
  readonly quick: boolean
  /** 0 where there is none. */
  readonly bestBidPrices: readonly [number, number]
  readonly bestAskPrices: readonly [number, number]
  /** Of the newest trade of either outcome; 0 for none. What follows is null while it is not known. */
  readonly lastPrice: number | null
  readonly lastOutcome: 0 | 1 | null
  readonly lastPrices: readonly [number, number] | null
  /** The last price less that of 24 hours ago; null for an outcome that was never traded. */
  readonly priceChanges24h: readonly [number | null, number | null] | null
  readonly volume24h: number | null
  readonly trades24h: number | null
  readonly totalVolume: number | null
  readonly seq: number
}

export type Market = Ticker & {
  readonly id: string
  readonly question: string
  readonly description: string
  readonly category: 'defi' | 'protocol' | 'stablecoin' | 'general'
  readonly contractAddress: string
  readonly maker: string
  readonly expiration: number
  readonly chainId: number
  readonly resolved: boolean
  /** The best YES ask; 0 when there is none. */
  readonly bestAskPrice: number
  readonly createdAt: number
  /** In lists, of a resolved market: 0 = YES, 1 = NO. */
  readonly winningOutcome?: 0 | 1
}

export type Level = {
  readonly price: number
  /** The sum over all orders at the price, which may exceed 2^53. */
  readonly size: bigint
}

export type Orderbook = {
  readonly marketId: string
  /** Best first. */
  readonly bids: readonly Level[]
  /** Best first. */
  readonly asks: readonly Level[]
  readonly lastUpdate: number
  readonly seq: number
}

export type Trade = {
  readonly tradeId: string
  readonly price: number
  readonly size: number
  readonly buyer: string
  readonly seller: string
  readonly outcome: 0 | 1
  readonly timestamp: number
  /** Empty until there is one. */
  readonly txHash: string
  readonly status: 'matched' | 'submitted' | 'confirmed' | 'failed' | 'reverted'
  readonly seq: number
}

export type SignatureScheme = {
  readonly domain: {
    readonly name: string
    readonly version: string
    readonly chainId: number
    readonly verifyingContract?: string
  }
  readonly primaryType: string
  readonly types: Readonly<
    Record<string, readonly { readonly name: string; readonly type: string }[]>
  >
  /** How to read the nonce of the message: a view, of the market's contract if none is named. */
  readonly nonce?: {
    readonly contract?: string
    readonly function: string
    readonly args: readonly string[]
  }
}

export type ChainConfig = {
  readonly chainId: number
  readonly role: 'main' | 'test'
  /** On the devnet only. */
  readonly rpcUrl?: string
  readonly blockExplorer?: string
  readonly contracts: {
    readonly settlement: string
    readonly conditionalTokens: string
    readonly stablecoin: string
    readonly marketFactory: string
    readonly multicall: string
    readonly oracle: string
  }
  readonly stablecoin: {
    readonly symbol: string
    readonly decimals: number
    readonly address: string
  }
  readonly signatures: {
    readonly order: SignatureScheme
    readonly cancelOrders: SignatureScheme
    readonly cancelAllBefore: SignatureScheme
    readonly ctfApproval: SignatureScheme
    readonly ctfRedemption: SignatureScheme
    readonly stablecoinPermit: SignatureScheme
    readonly proposeResolution: SignatureScheme
    readonly settleMarket: SignatureScheme
  }
}

/** A transaction that the relayer sent, or had sent before for the same signature. */
export type Relayed = { readonly success: true; readonly tx_hash: string }

export type RelayedBatch = {
  readonly success: true
  readonly txHash: string
  readonly status: 'pending' | 'confirmed'
}

export type RelayerNonces = {
  readonly conditionalTokens: string
  readonly stablecoin: string
  /** Of the market that was asked about, and what a proposal there costs. */
  readonly market?: string
  readonly bond?: string
  /** Unix seconds, as the exchange counts them. */
  readonly serverTime: number
}

/** How far the resolution of a market is. */
export type ResolutionStatus = {
  readonly marketId: string
  readonly expired: boolean
  readonly resolved: boolean
  /** 0 = YES, 1 = NO; there when it is resolved. */
  readonly winningOutcome?: 0 | 1
  /** There while one stands. */
  readonly assertion?: {
    readonly id: string
    readonly proposer: string
    /** True for YES. */
    readonly proposedOutcome: boolean
    /** In millionths, as decimal text. */
    readonly bondAmount: string
    readonly assertionTime: number
    /** The end of the dispute window. */
    readonly expirationTime: number
    readonly settled: boolean
    readonly settlementResolution: boolean
    readonly disputed: boolean
  }
}

/** A redemption through the relayer. */
export type Claim = {
  /** Empty until there is one. */
  readonly txHash: string
  readonly userAddress: string
  readonly marketAddress: string
  readonly marketId: string
  /** Expected, in millionths. */
  readonly payout: number
  /** 0 = YES, 1 = NO. */
  readonly winningOutcome: 0 | 1
  readonly submittedAt: number
  /** There when it failed. */
  readonly reason?: string
}

/** What a trader has on a chain, and what of it is reserved. Amounts have six decimals. */
export type Funds = {
  readonly chainId: number
  readonly trader: string
  /** The block at which the chain was read. */
  readonly blockNumber: number
  readonly tokens: readonly {
    readonly token: 'stablecoin' | 'outcome'
    /** Of an outcome token. */
    readonly marketId?: string
    readonly outcome?: 0 | 1
    readonly held: string
    readonly allowed: string
    readonly reservedForOrders: string
    readonly reservedForTrades: string
    /** What a further order may need. */
    readonly free: string
  }[]
}

export type Config = {
  readonly service: {
    readonly name: string
    readonly version: string
    /** `major.minor`; exchanges from before it was named do not say it. */
    readonly apiVersion?: string
  }
  /** Unix seconds, when it was asked. */
  readonly serverTime: number
  readonly auth: {
    readonly bearer: boolean
    readonly tokenSeconds: number
    /** Whether a token serves for one request only. */
    readonly singleUse: boolean
    readonly registerMessage: string
    readonly revokeMessage: string
  }
  /** Whether an order needs its funds reserved before it is matched. */
  readonly risk: { readonly funds: 'off' | 'reserve' }
  readonly limits: Readonly<Record<string, number>>
  /** The assets that have prices, and how long their quick markets last, where there are any. */
  readonly quickMarkets?: { readonly assets: readonly string[]; readonly intervalSeconds?: number }
  readonly chains: readonly ChainConfig[]
}
