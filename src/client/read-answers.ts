/** What the reads of history and sums answer, as types. Amounts have 6 decimals, times are Unix seconds. */

export type Candle = {
  readonly timestamp: number
  readonly open: number
  readonly high: number
  readonly low: number
  readonly close: number
  readonly volume: number
  readonly trades: number
}

export type Candles = {
  readonly candles: readonly Candle[]
  /** Pass it as `to` for earlier ones; null where all that was asked for is here. */
  readonly nextTo: number | null
}

export type MarketStats = {
  readonly marketId: string
  readonly contractAddress: string
  readonly volume24h: number
  readonly totalVolume: number
  readonly lastPrice: number
  readonly lastOutcome: 0 | 1 | null
  readonly lastYesPrice: number
  readonly lastNoPrice: number
  readonly trades24h: number
  readonly totalTrades: number
  readonly openInterest: number
}

export type PlatformStats = {
  readonly chainId: number | null
  readonly totalMarkets: number
  readonly activeMarkets: number
  readonly resolvedMarkets: number
  readonly totalVolume: number
  readonly volume24h: number
  readonly totalTrades: number
  readonly trades24h: number
  readonly totalTraders: number
  readonly openOrders: number
  readonly openInterest: number
}

export type UserPosition = {
  readonly marketId: string
  readonly marketQuestion: string
  readonly contractAddress: string
  readonly yesShares: number
  readonly noShares: number
  readonly totalInvested: number
  readonly yesCost: number
  readonly noCost: number
  /** What was made of shares that have left; negative when it is a loss. */
  readonly realisedProfit: number
  readonly expiration: number
  readonly resolved: boolean
}

export type Holders = {
  readonly topHolders: readonly {
    readonly address: string
    readonly yesShares: number
    readonly noShares: number
    readonly totalShares: number
    readonly totalInvested: number
  }[]
  readonly totalHolders: number
}

type InMarket = {
  readonly marketId: string
  readonly marketQuestion: string
  readonly contractAddress: string
}

export type UserActivity = {
  readonly activity: readonly (InMarket & {
    readonly tradeId: string
    readonly role: 'buyer' | 'seller'
    readonly outcome: 0 | 1
    readonly price: number
    readonly size: number
    readonly cost: number
    readonly status: 'matched' | 'submitted' | 'confirmed' | 'failed' | 'reverted'
    readonly timestamp: number
    readonly txHash: string
  })[]
  readonly settlements: readonly (InMarket & {
    readonly winningOutcome: 0 | 1
    readonly payout: number
    readonly txHash: string
    readonly status: 'pending' | 'confirmed' | 'failed'
    readonly timestamp: number
  })[]
}
