/**
 * Judges an operation before any gas is spent. Checks whether its owner signed it with the current nonces of the
 * contracts, and whether the state of the chain permits it. Then builds the call and simulates it from the key that
 * would send it.
 */

import { gasOf } from '#chain/call.ts'
import { asked } from '#chain/clients.ts'
import { delegationNonce } from '#chain/delegates-contract.ts'
import { settlementContract } from '#chain/settlement-contract.ts'
import type { Address } from '#domain/ids.ts'
import { isRejection, type Rejection, reject } from '#domain/rejection.ts'
import type { RelayOperation } from '#domain/relay.ts'
import { makeRelayCalls } from './relay-calls.ts'
import { relayCancellations } from './relay-cancellations.ts'
import { makeRelayChecks } from './relay-checks.ts'
import type { RelayExamination, RelayTrial } from './relay-examination.ts'
import { relayFacts } from './relay-facts.ts'
import { unknownMarket, wouldRevert } from './relay-flaws.ts'
import type { RelayExaminerOptions } from './relay-options.ts'

type RelayExaminer = {
  examine(operation: RelayOperation): Promise<RelayExamination | Rejection>
  attempt(
    operation: RelayOperation,
    examination: RelayExamination,
    lanes: readonly Address[],
  ): Promise<RelayTrial | Rejection>
  nonces(
    owner: Address,
    marketAddress: Address | undefined,
  ): Promise<
    | {
        conditionalTokens: string
        stablecoin: string
        delegates: string
        market?: string
        bond?: string
      }
    | Rejection
  >
  balances(): Promise<{ lane: Address; wei: string }[]>
}

/** Margin that is added to the simulated gas, because the state may differ when the transaction is mined. */
const GAS_MARGIN_PERCENT = 25n

/**
 * Minimum gas limit of a market's settlement: twice the cost of a settlement that also reports the payouts. A
 * settlement succeeds even if its gas is too low for the report. So a gas estimate would be too low.
 */
const SETTLE_GAS_MIN = 400_000n

export function makeRelayExaminer(options: RelayExaminerOptions): RelayExaminer {
  const { client, contracts } = options
  const facts = relayFacts(client, contracts)
  const accounts = new Map(options.accounts.map(({ address, account }) => [address, account]))
  const cancellations = relayCancellations(
    settlementContract(client, contracts.settlement),
    options,
  )
  const checks = makeRelayChecks(options, facts, cancellations)
  const { callOf, batchFlaw } = makeRelayCalls(options, { facts, accounts, cancellations })

  return {
    examine: checks.examine,

    async attempt(operation, { ownBond }, lanes) {
      let refused: Rejection | undefined
      for (const lane of lanes) {
        const call = await callOf(operation, lane, ownBond)
        if (isRejection(call)) {
          // This key cannot pay the bond in stablecoin. Try the next key.
          refused = call
          continue
        }
        const tried = await gasOf(client, call, lane)
        if (typeof tried === 'object') {
          return wouldRevert(undefined, (await batchFlaw(operation, lane)) ?? tried.words)
        }
        const least = operation.kind === 'settle-market' ? SETTLE_GAS_MIN : 0n
        const gas = (tried * (100n + GAS_MARGIN_PERCENT)) / 100n
        const { to, data } = call
        return { lane, to, data, gas: Number(gas > least ? gas : least) }
      }
      return refused ?? reject('RELAYER_UNAVAILABLE')
    },

    async nonces(owner, marketAddress) {
      const [known, delegates, market] = await Promise.all([
        facts.owner(owner),
        delegationNonce(client, contracts.settlement, owner),
        marketAddress === undefined ? undefined : facts.market(marketAddress, owner),
      ])
      if (marketAddress !== undefined && market === undefined) return unknownMarket('market')
      return {
        conditionalTokens: String(known.tokensNonce),
        stablecoin: String(known.stablecoinNonce),
        delegates: String(delegates),
        ...(market === undefined
          ? {}
          : { market: String(market.nonce), bond: String(market.bond) }),
      }
    },

    async balances() {
      return Promise.all(
        [...accounts].map(async ([lane, { address }]) => ({
          lane,
          wei: String(await asked(client.viem.getBalance({ address }))),
        })),
      )
    },
  }
}
