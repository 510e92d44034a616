/** Settings of risk: the funds that an order needs, and limits for traders after failed trades. */

import Type from 'typebox'

export const risk = Type.Object({
  funds: Type.Enum(['off', 'reserve'], {
    env: 'SIBYL_RISK_FUNDS',
    description:
      'off accepts every valid order; reserve accepts it only when the chain shows the funds and the ' +
      'allowance for everything that its trader has open or pending there.',
  }),
  threads: Type.Integer({
    env: 'SIBYL_RISK_THREADS',
    minimum: 0,
    maximum: 64,
    unit: 'threads',
    description:
      'Threads that reserve funds, each for a share of the traders. 0 follows the cores: one for ' +
      'every eight; with several machines the default is one, and the value must be the same on all.',
  }),
  minNotional: Type.Integer({
    env: 'SIBYL_RISK_MIN_NOTIONAL',
    minimum: 0,
    maximum: 1_000_000_000_000,
    unit: 'millionths of the stablecoin',
    description: 'Minimum of price times size of an order. 0 means no minimum.',
  }),
  cooldownSeconds: Type.Integer({
    env: 'SIBYL_RISK_COOLDOWN_SECONDS',
    minimum: 0,
    maximum: 86_400,
    unit: 'seconds',
    description:
      'How long a trader can place no orders after a trade that failed by their fault. This ' +
      'pause doubles with each further failure. 0 means no pause.',
  }),
  cooldownSecondsMax: Type.Integer({
    env: 'SIBYL_RISK_COOLDOWN_SECONDS_MAX',
    minimum: 1,
    maximum: 604_800,
    unit: 'seconds',
    description:
      'The longest such pause. Twice this time without a fault forgets the earlier ones.',
  }),
  pendingTradesMax: Type.Integer({
    env: 'SIBYL_RISK_PENDING_TRADES_MAX',
    minimum: 1,
    maximum: 1_000_000,
    unit: 'trades',
    description:
      'Unsettled trades that one trader may have on a chain, on one market thread; above it new ' +
      'orders wait for the chain.',
  }),
  fillsPerDay: Type.Integer({
    env: 'SIBYL_RISK_FILLS_PER_DAY',
    minimum: 0,
    maximum: 1_000_000_000,
    unit: 'fills',
    description:
      'Maximum number of settled fills that are charged to one trader on a chain in a day (UTC). ' +
      'At the limit, new orders of the trader are rejected. The last fill of a match is charged ' +
      'to the taker, each earlier fill to the maker whose order it fills completely. The open ' +
      'orders and unsettled fills of the trader count in advance, multiplied by the number of ' +
      'market threads. 0 means no limit.',
  }),
  gasPerDay: Type.Integer({
    env: 'SIBYL_RISK_GAS_PER_DAY',
    minimum: 0,
    maximum: 1_000_000_000_000,
    unit: 'gas',
    description:
      'Gas of those fills: each has an equal share of the gas of its transaction. 0 is no limit.',
  }),
  failedGasPerDay: Type.Integer({
    env: 'SIBYL_RISK_FAILED_GAS_PER_DAY',
    minimum: 0,
    maximum: 1_000_000_000_000,
    unit: 'gas',
    description:
      'Maximum gas of the fills that fail on a chain by the fault of one trader in a day (UTC). ' +
      'At the limit, new orders of the trader are rejected, open orders are cancelled with the ' +
      'reason unfunded, and trades that were not sent to the chain yet fail. 0 means no limit.',
  }),
  exemptTraders: Type.Array(Type.String({ pattern: '^0x[0-9a-fA-F]{40}$' }), {
    env: 'SIBYL_RISK_EXEMPT_TRADERS',
    maxItems: 1_000,
    description:
      'Traders without these three limits, such as market makers under contract, separated by commas.',
  }),
})
