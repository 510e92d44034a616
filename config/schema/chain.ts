/** Settings of the chains: addresses, keys, and rules for indexing, settling and relaying. */

import Type from 'typebox'
import { ContractAddressForm, HttpUrl, Key } from './patterns.ts'

const ContractAddress = Type.String({ pattern: ContractAddressForm })

const Chain = Type.Object(
  {
    chainId: Type.Integer({ minimum: 1 }),
    /**
     * Role of the chain. On a `main` chain, the proposer of an outcome must pay the bond. On a `test` chain, the
     * relayer may pay the bond.
     */
    role: Type.Enum(['main', 'test']),
    /** URLs of nodes, tried in this order. With an empty list there is no chain: orders match, and nothing settles. */
    rpcUrls: Type.Array(Type.String({ pattern: HttpUrl }), { maxItems: 10 }),
    blockExplorer: Type.String(),
    /** Block in which the contracts were deployed. Earlier blocks contain no events of the contracts. */
    startBlock: Type.Integer({ minimum: 0 }),
    /** The exchange uses the events of a block only after this many later blocks. */
    confirmations: Type.Integer({ minimum: 0, maximum: 1_000 }),
    contracts: Type.Object(
      {
        settlement: ContractAddress,
        conditionalTokens: ContractAddress,
        stablecoin: ContractAddress,
        marketFactory: ContractAddress,
        multicall: ContractAddress,
        oracle: ContractAddress,
      },
      { additionalProperties: false },
    ),
    stablecoin: Type.Object(
      {
        symbol: Type.String(),
        decimals: Type.Integer({ minimum: 6, maximum: 6 }),
        /** EIP-712 domain of the stablecoin, which permits need. The defaults are `USD Coin` and `1`. */
        domainName: Type.Optional(Type.String()),
        domainVersion: Type.Optional(Type.String()),
      },
      { additionalProperties: false },
    ),
  },
  { additionalProperties: false },
)

export const chains = Type.Array(Chain, {
  env: 'SIBYL_CHAINS',
  maxItems: 16,
  description: 'The chains that orders may settle on, as JSON.',
})

export const chainRpc = Type.Array(Type.String({ pattern: HttpUrl }), {
  env: 'SIBYL_CHAIN_RPC',
  maxItems: 10,
  description:
    'Where the chain is reached, tried in this order, separated by commas; its contracts are ' +
    'those of SIBYL_CHAINS, which has one chain then. Empty on the devnet: a local chain starts.',
})

export const indexer = Type.Object({
  pollMs: Type.Integer({
    env: 'SIBYL_INDEXER_POLL_MS',
    minimum: 10,
    maximum: 60_000,
    unit: 'ms',
    description: 'Interval of requests for new blocks of each chain.',
  }),
  rangeBlocksMax: Type.Integer({
    env: 'SIBYL_INDEXER_RANGE_BLOCKS_MAX',
    minimum: 1,
    maximum: 100_000,
    unit: 'blocks',
    description: 'Blocks per read; fewer if the provider refuses that many.',
  }),
  rpcTimeoutMs: Type.Integer({
    env: 'SIBYL_INDEXER_RPC_TIMEOUT_MS',
    minimum: 50,
    maximum: 600_000,
    unit: 'ms',
    description: 'Timeout of one request of the indexer to a chain.',
  }),
})

export const devnet = Type.Object({
  enabled: Type.Boolean({
    env: 'SIBYL_DEVNET',
    description: 'Whether a local chain is started if the settings name no other.',
  }),
  port: Type.Integer({
    env: 'SIBYL_DEVNET_PORT',
    minimum: 0,
    maximum: 65_535,
    description: 'The port of the local chain. 0 picks a free one.',
  }),
  lingerSeconds: Type.Integer({
    env: 'SIBYL_DEVNET_LINGER_SECONDS',
    minimum: 0,
    maximum: 86_400,
    unit: 's',
    description: 'How long the local chain waits for the next start after the exchange was killed.',
  }),
  disputeSeconds: Type.Integer({
    env: 'SIBYL_DISPUTE_SECONDS',
    minimum: 1,
    maximum: 31_536_000,
    unit: 's',
    description: 'How long a proposed outcome can be disputed on the local chain.',
  }),
})

export const keys = Type.Object({
  settlement: Type.String({
    env: 'SIBYL_SETTLEMENT_KEY',
    secret: true,
    pattern: Key,
    description: 'The private key that sends settlements.',
  }),
  relayer: Type.Array(Type.String({ pattern: Key }), {
    env: 'SIBYL_RELAYER_KEYS',
    secret: true,
    maxItems: 64,
    description: 'The private keys that send and pay for relayed operations, separated by commas.',
  }),
  operator: Type.String({
    env: 'SIBYL_OPERATOR_KEY',
    secret: true,
    pattern: Key,
    description: 'The private key that opens and resolves quick markets.',
  }),
  resolution: Type.String({
    env: 'SIBYL_RESOLUTION_KEY',
    secret: true,
    pattern: Key,
    description: 'The private key that settles resolutions after their dispute window.',
  }),
})

export const resolution = Type.Object({
  autoSettle: Type.Boolean({
    env: 'SIBYL_AUTO_SETTLE',
    description: 'Whether the exchange settles resolutions as soon as possible; needs a key.',
  }),
  pollMs: Type.Integer({
    env: 'SIBYL_RESOLUTION_POLL_MS',
    minimum: 50,
    maximum: 3_600_000,
    unit: 'ms',
    description: 'Interval of checks for resolutions to settle.',
  }),
})

export const relayer = Type.Object({
  deadlineAheadSecMax: Type.Integer({
    env: 'SIBYL_RELAYER_DEADLINE_AHEAD_SEC_MAX',
    minimum: 60,
    maximum: 3_153_600_000,
    unit: 's',
    description: 'Maximum time from now to the deadline of a signed operation.',
  }),
  redemptionsMax: Type.Integer({
    env: 'SIBYL_RELAYER_REDEMPTIONS_MAX',
    minimum: 1,
    maximum: 100,
    unit: 'redemptions',
    description: 'Maximum redemptions in one batch.',
  }),
  minHolding: Type.Integer({
    env: 'SIBYL_RELAYER_MIN_HOLDING',
    minimum: 0,
    maximum: 1_000_000_000_000_000,
    unit: '1e-6 stablecoin',
    description:
      'Minimum that a wallet must hold, in stablecoin and outcome tokens, for a relayed approval or permit. 0 means no minimum.',
  }),
  minRedemption: Type.Integer({
    env: 'SIBYL_RELAYER_MIN_REDEMPTION',
    minimum: 0,
    maximum: 1_000_000_000_000_000,
    unit: '1e-6 stablecoin',
    description:
      'The minimum payout of a relayed redemption; set it above the cost of its gas. 0 means no minimum.',
  }),
  ownerPerMinute: Type.Integer({
    env: 'SIBYL_RELAYER_OWNER_PER_MINUTE',
    minimum: 1,
    maximum: 1_000_000,
    unit: 'operations/min',
    description: 'Relayed operations of one owner, while limits are on.',
  }),
  ownerBurst: Type.Integer({
    env: 'SIBYL_RELAYER_OWNER_BURST',
    minimum: 1,
    maximum: 1_000_000,
    unit: 'operations',
    description: 'Maximum burst of these operations.',
  }),
  newcomerGasPerDay: Type.Integer({
    env: 'SIBYL_RELAYER_NEWCOMER_GAS_PER_DAY',
    minimum: 0,
    maximum: 1_000_000_000_000,
    unit: 'gas',
    description:
      'Gas per day (UTC) and chain for an owner without settled trades in the last 30 days: once for redemptions, once for all other operations.',
  }),
  gasPerTrade: Type.Integer({
    env: 'SIBYL_RELAYER_GAS_PER_TRADE',
    minimum: 0,
    maximum: 1_000_000_000_000,
    unit: 'gas',
    description:
      "Gas that each of the owner's settled trades of the last 30 days adds to that, up to the owner's limits.",
  }),
  tradersPercent: Type.Integer({
    env: 'SIBYL_RELAYER_TRADERS_PERCENT',
    minimum: 0,
    maximum: 100,
    unit: '%',
    description:
      'The share of the daily gas that is kept for owners with a settled trade in the last 30 days.',
  }),
  ownerGasPerDay: Type.Integer({
    env: 'SIBYL_RELAYER_OWNER_GAS_PER_DAY',
    minimum: 0,
    maximum: 1_000_000_000_000,
    unit: 'gas',
    description:
      'Gas that is spent for one owner in a day (UTC), per chain, on all but redemptions.',
  }),
  gasPerDay: Type.Integer({
    env: 'SIBYL_RELAYER_GAS_PER_DAY',
    minimum: 0,
    maximum: 1_000_000_000_000_000,
    unit: 'gas',
    description: 'Gas that is spent for all in a day (UTC), per chain, on all but redemptions.',
  }),
  ownerRedemptionGasPerDay: Type.Integer({
    env: 'SIBYL_RELAYER_OWNER_REDEMPTION_GAS_PER_DAY',
    minimum: 0,
    maximum: 1_000_000_000_000,
    unit: 'gas',
    description:
      'Gas for the redemptions of one owner in a day (UTC), and for settling markets, per chain.',
  }),
  redemptionGasPerDay: Type.Integer({
    env: 'SIBYL_RELAYER_REDEMPTION_GAS_PER_DAY',
    minimum: 0,
    maximum: 1_000_000_000_000_000,
    unit: 'gas',
    description:
      'Gas for the redemptions of all in a day (UTC), and for settling markets, per chain.',
  }),
  balanceLowGwei: Type.Integer({
    env: 'SIBYL_RELAYER_BALANCE_LOW_GWEI',
    minimum: 0,
    maximum: 1_000_000_000_000_000,
    unit: 'gwei',
    description: 'A key with less ether causes a warning.',
  }),
  balanceMinGwei: Type.Integer({
    env: 'SIBYL_RELAYER_BALANCE_MIN_GWEI',
    minimum: 0,
    maximum: 1_000_000_000_000_000,
    unit: 'gwei',
    description: 'A key with less ether is not used; if no key is left, operations are refused.',
  }),
  stuckAfterMs: Type.Integer({
    env: 'SIBYL_RELAYER_STUCK_AFTER_MS',
    minimum: 100,
    maximum: 3_600_000,
    unit: 'ms',
    description:
      'If a transaction of a key is in no block for this long, other keys are used first.',
  }),
  rebroadcastMs: Type.Integer({
    env: 'SIBYL_RELAYER_REBROADCAST_MS',
    minimum: 10,
    maximum: 3_600_000,
    unit: 'ms',
    description: 'Time after which a transaction that is in no block is sent to nodes again.',
  }),
  feeBumpMs: Type.Integer({
    env: 'SIBYL_RELAYER_FEE_BUMP_MS',
    minimum: 10,
    maximum: 3_600_000,
    unit: 'ms',
    description:
      'Time after which a transaction that is in no block is signed again with higher fees.',
  }),
  pollMs: Type.Integer({
    env: 'SIBYL_RELAYER_POLL_MS',
    minimum: 10,
    maximum: 60_000,
    unit: 'ms',
    description: 'Interval of requests about sent transactions.',
  }),
  idlePollMs: Type.Integer({
    env: 'SIBYL_RELAYER_IDLE_POLL_MS',
    minimum: 10,
    maximum: 600_000,
    unit: 'ms',
    description: 'The same while no transaction is open, to notice reorgs.',
  }),
  balanceEveryMs: Type.Integer({
    env: 'SIBYL_RELAYER_BALANCE_EVERY_MS',
    minimum: 10,
    maximum: 3_600_000,
    unit: 'ms',
    description: 'Interval of reading the balances of the keys.',
  }),
})

export const settlement = Type.Object({
  enabled: Type.Boolean({
    env: 'SIBYL_SETTLEMENT',
    description: 'Whether matched trades are settled on the chain, if there is a chain.',
  }),
  batchMax: Type.Integer({
    env: 'SIBYL_SETTLEMENT_BATCH_MAX',
    minimum: 1,
    maximum: 500,
    unit: 'trades',
    description: 'Maximum trades in one transaction. 45 fit into 2^24 gas in every case.',
  }),
  batchWaitMs: Type.Integer({
    env: 'SIBYL_SETTLEMENT_BATCH_WAIT_MS',
    minimum: 0,
    maximum: 60_000,
    unit: 'ms',
    description: 'How long a trade waits for others to share its transaction.',
  }),
  inFlightMax: Type.Integer({
    env: 'SIBYL_SETTLEMENT_IN_FLIGHT_MAX',
    minimum: 1,
    maximum: 64,
    unit: 'transactions',
    description: 'Maximum transactions that are sent and in no block yet.',
  }),
  pollMs: Type.Integer({
    env: 'SIBYL_SETTLEMENT_POLL_MS',
    minimum: 10,
    maximum: 60_000,
    unit: 'ms',
    description: 'Interval of reads from the chain and the database.',
  }),
  maxLagSeconds: Type.Integer({
    env: 'SIBYL_SETTLEMENT_MAX_LAG_SECONDS',
    minimum: 0,
    maximum: 604_800,
    unit: 's',
    description:
      'When the oldest trade of a chain has waited longer, its markets accept cancels only; ' +
      "0 means never. It must be below the settlement contract's grace.",
  }),
  tradeDeadlineSeconds: Type.Integer({
    env: 'SIBYL_SETTLEMENT_TRADE_DEADLINE_SECONDS',
    minimum: 10,
    maximum: 604_800,
    unit: 's',
    description:
      'A trade that has not settled after this time fails, and an alarm states the reason. Time ' +
      'in which the chain could not be reached does not count. Must be above ' +
      'SIBYL_SETTLEMENT_MAX_LAG_SECONDS and below the grace period of the settlement contract.',
  }),
  retryGasMax: Type.Integer({
    env: 'SIBYL_SETTLEMENT_RETRY_GAS_MAX',
    minimum: 0,
    maximum: 1_000_000_000,
    unit: 'gas',
    description:
      'Gas that a trade may waste by on-chain refusals without a side at fault, or by reverts; ' +
      'then it fails. Trades that a simulation refuses are not sent.',
  }),
  gasMax: Type.Integer({
    env: 'SIBYL_SETTLEMENT_GAS_MAX',
    minimum: 500_000,
    maximum: 1_000_000_000,
    unit: 'gas',
    description: 'Maximum gas of one transaction.',
  }),
  bumpAfterMs: Type.Integer({
    env: 'SIBYL_SETTLEMENT_BUMP_AFTER_MS',
    minimum: 100,
    maximum: 3_600_000,
    unit: 'ms',
    description: 'A transaction that is in no block after this time is sent with higher fees.',
  }),
  maxFeeGwei: Type.Integer({
    env: 'SIBYL_SETTLEMENT_MAX_FEE_GWEI',
    minimum: 1,
    maximum: 1_000_000,
    unit: 'gwei',
    description: 'Maximum fee per gas.',
  }),
})
