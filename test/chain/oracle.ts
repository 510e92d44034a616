/** UMA's OptimisticOracleV3, as far as markets need it: one assertion, disputing and settling it. */

import { type Hex, parseAbi } from 'viem'
import { type Call, callOf, hexAddress } from '#chain/call.ts'
import { type ChainLog, decoded, type Place, placeOf } from '#chain/chain-log.ts'
import { asked, type ChainClient } from '#chain/clients.ts'
import { type Address, toAddress } from '#domain/ids.ts'

const oracleAbi = parseAbi([
  'struct EscalationManagerSettings { bool arbitrateViaEscalationManager; bool discardOracle; bool validateDisputers; address assertingCaller; address escalationManager; }',
  'struct Assertion { EscalationManagerSettings escalationManagerSettings; address asserter; uint64 assertionTime; bool settled; address currency; uint64 expirationTime; bool settlementResolution; bytes32 domainId; bytes32 identifier; uint256 bond; address callbackRecipient; address disputer; }',
  'function getAssertion(bytes32 assertionId) view returns (Assertion)',
  'function getMinimumBond(address currency) view returns (uint256)',
  'function disputeAssertion(bytes32 assertionId, address disputer)',
  'function settleAssertion(bytes32 assertionId)',
  'event AssertionDisputed(bytes32 indexed assertionId, address indexed caller, address indexed disputer)',
  'event AssertionSettled(bytes32 indexed assertionId, address indexed bondRecipient, bool disputed, bool settlementResolution, address settleCaller)',
])

export type OracleAssertion = {
  readonly asserter: Address
  readonly assertedAtSec: number
  readonly windowEndsAtSec: number
  readonly settled: boolean
  /** The oracle's result, once settled. */
  readonly settlementResolution: boolean
  readonly bond: bigint
  /** The market that asked. */
  readonly callbackRecipient: Address
  readonly disputer: Address | undefined
}

export type OracleEvent =
  | (Place & {
      readonly type: 'AssertionDisputed'
      readonly assertionId: string
      readonly disputer: Address
    })
  | (Place & {
      readonly type: 'AssertionSettled'
      readonly assertionId: string
      readonly bondRecipient: Address
      readonly disputed: boolean
      readonly settlementResolution: boolean
    })

export type Oracle = {
  readonly address: Address
  /** Undefined when there is no such assertion. */
  assertion(assertionId: string): Promise<OracleAssertion | undefined>
  minimumBond(currency: Address): Promise<bigint>
  disputeCall(assertionId: string, disputer: Address): Call
  settleCall(assertionId: string): Call
}

const NOBODY = /^0x0+$/

export function oracle(client: ChainClient, address: Address): Oracle {
  const contract = { address: hexAddress(address), abi: oracleAbi } as const
  const { viem } = client
  return {
    address,
    async assertion(assertionId) {
      const found = await asked(
        viem.readContract({
          ...contract,
          functionName: 'getAssertion',
          args: [assertionId as Hex],
        }),
      )
      if (NOBODY.test(found.asserter)) return undefined
      return {
        asserter: toAddress(found.asserter),
        assertedAtSec: Number(found.assertionTime),
        windowEndsAtSec: Number(found.expirationTime),
        settled: found.settled,
        settlementResolution: found.settlementResolution,
        bond: found.bond,
        callbackRecipient: toAddress(found.callbackRecipient),
        disputer: NOBODY.test(found.disputer) ? undefined : toAddress(found.disputer),
      }
    },
    minimumBond: (currency) =>
      asked(
        viem.readContract({
          ...contract,
          functionName: 'getMinimumBond',
          args: [hexAddress(currency)],
        }),
      ),
    disputeCall: (assertionId, disputer) =>
      callOf(address, oracleAbi, 'disputeAssertion', [assertionId as Hex, hexAddress(disputer)]),
    settleCall: (assertionId) =>
      callOf(address, oracleAbi, 'settleAssertion', [assertionId as Hex]),
  }
}

/** The oracle's event in this log; undefined for any other. */
export function oracleEvent(log: ChainLog): OracleEvent | undefined {
  const event = decoded(oracleAbi, log)
  if (event === undefined) return undefined
  const place = placeOf(log)
  if (event.eventName === 'AssertionDisputed') {
    const { assertionId, disputer } = event.args
    return { type: 'AssertionDisputed', ...place, assertionId, disputer: toAddress(disputer) }
  }
  const { assertionId, bondRecipient, disputed, settlementResolution } = event.args
  return {
    type: 'AssertionSettled',
    ...place,
    assertionId,
    bondRecipient: toAddress(bondRecipient),
    disputed,
    settlementResolution,
  }
}
