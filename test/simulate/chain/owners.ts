/**
 * Owners of funds who sign all kinds of operations for the relayer. Signatures are made by real keys. The chain looks
 * up the signer and the nonce of a signature by the signature's last word.
 */

import { type Hex, parseSignature, zeroHash } from 'viem'
import { accountOf, type OwnAccount } from '#chain/accounts.ts'
import type { Settings } from '#config/settings-schema.ts'
import { contractsOf, stablecoinOf } from '#config/thread-data.ts'
import { type Address, type MarketId, toAddress, type Uint64, type Uint256 } from '#domain/ids.ts'
import type { Order, Outcome } from '#domain/order.ts'
import type { Redemption, RelayOperation, SignedPermit } from '#domain/relay.ts'
import { signedMessages } from '#domain/relay-messages.ts'
import type { Random } from '../../support/random.ts'
import type { SimulatedChain } from './chain.ts'
import { EMPTY_WALLET } from './contracts.ts'
import type { ChainMarket } from './factory.ts'
import { BOND, openClaimOf } from './oracle-model.ts'
import { isDue } from './proposers.ts'

const OWNERS = [1, 2, 3, 4].map((each) => accountOf(`0x${`a${each}`.repeat(32)}`))
export const OWNER_ADDRESSES = OWNERS.map(({ address }) => address)
/** Keys of the delegates. An owner may appoint only the delegate with the owner's index in `OWNERS`. */
const DELEGATES = [1, 2, 3, 4].map((each) => accountOf(`0x${`b${each}`.repeat(32)}`))

const NO_SIGNATURE = { v: 27, r: zeroHash, s: zeroHash } as const
const BATCH_MAX = 4

type Signed = {
  readonly operation: RelayOperation
  /** Difference between the signed nonce and the nonce that the contract expects next. */
  readonly off: bigint
}

type OwnersWorld = {
  readonly settings: Settings
  readonly chain: SimulatedChain
  readonly random: Random
  /** Returns orders of an owner that the exchange may have accepted. */
  readonly ordersOf: (owner: Address) => readonly Order[]
}

export const delegateOf = (owner: Address): Address =>
  DELEGATES[OWNER_ADDRESSES.indexOf(owner)]!.address

export class Owners {
  readonly #world: OwnersWorld

  constructor(world: OwnersWorld) {
    this.#world = world
  }

  /** Returns the next signed operation of a random owner; undefined if there is nothing to do. */
  async next(nowSec: number): Promise<Signed | undefined> {
    const { random } = this.#world
    const owner = random.pick(OWNERS)
    const operation = this.#operation(owner.address, nowSec)
    if (operation === undefined) return undefined
    const off = random.chance(0.12) ? random.pick([-1n, 1n]) : 0n
    return { operation: await this.#sign(operation, owner, off), off }
  }

  #operation(owner: Address, nowSec: number): RelayOperation | undefined {
    const { random, chain } = this.#world
    const { chainId, settlement } = chain.contracts.at
    const deadline = String(nowSec + random.int(20, 900)) as Uint256
    const signed = { deadline, ...NO_SIGNATURE }
    const base = { chainId, owner, ...signed }
    const dice = random.next()
    if (dice < 0.12) {
      return { ...base, kind: 'ctf-approval', operator: settlement, approved: random.chance(0.8) }
    }
    if (dice < 0.24) {
      const value = String(random.int(0, 99) * 5_000_000) as Uint256
      return { ...base, kind: 'stablecoin-permit', spender: settlement, value }
    }
    if (dice < 0.36) {
      const [redemption] = this.#redemptions(owner, signed, 1)
      return redemption && { chainId, owner, kind: 'ctf-redemption', ...redemption }
    }
    if (dice < 0.48) {
      const redemptions = this.#redemptions(owner, signed, random.int(2, BATCH_MAX))
      if (redemptions.length === 0) return undefined
      return { chainId, owner, kind: 'batch-ctf-redemption', redemptions }
    }
    if (dice < 0.58) return this.#proposal(base, signed, nowSec)
    if (dice < 0.68) return this.#settlement(base, nowSec)
    if (dice < 0.82) return this.#cancellation(base)
    if (dice < 0.88) {
      const [order] = this.#ordersOf(owner, 1)
      const nonce = String(BigInt(order?.nonce ?? 0) + 1n) as Uint64
      return { ...base, kind: 'cancel-all-before', nonce }
    }
    const until = random.chance(0.45) ? 0 : nowSec + random.pick([15, 60, 100_000])
    return {
      ...{ ...base, kind: 'set-delegate', delegate: delegateOf(owner) },
      ...{ until: String(until) as Uint64, maxOpenNotional: '0' as Uint64, markets: [] },
      maxOrderSize: random.pick(['0', '4000000']) as Uint64,
    }
  }

  /** Returns redemptions of resolved markets, mostly of markets in which the owner has shares that won. */
  #redemptions(owner: Address, signed: SignedPermit, count: number): Redemption[] {
    const { random, chain } = this.#world
    const { stablecoin } = chain.contracts.at
    const { shares } = walletOf(chain, owner)
    const resolved = [...chain.head.markets.values()].filter(({ winner }) => winner !== undefined)
    const won = resolved.filter(
      ({ marketId, winner }) => (shares.get(`${marketId}/${winner!}`) ?? 0n) > 0n,
    )
    const from = won.length > 0 && random.chance(0.8) ? won : resolved
    const picked = new Set<MarketId>()
    for (let at = 0; at < count && from.length > 0; at++) picked.add(random.pick(from).marketId)
    return [...picked].map((marketId) => {
      chain.contracts.know(marketId)
      return {
        ...{ ...signed, collateralToken: stablecoin, parentCollectionId: zeroHash },
        ...{ conditionId: marketId, indexSets: ['1', '2'] as Uint256[] },
      }
    })
  }

  #marketWith(isFit: (market: ChainMarket) => boolean): ChainMarket | undefined {
    const { random, chain } = this.#world
    const markets = [...chain.head.markets.values()]
    const fit = markets.filter(isFit)
    if (fit.length > 0) return random.pick(fit)
    return markets.length > 0 && random.chance(0.05) ? random.pick(markets) : undefined
  }

  #proposal(base: Base, signed: SignedPermit, nowSec: number): RelayOperation | undefined {
    const { random } = this.#world
    const market = this.#marketWith(
      ({ winner, claimId, proposableFromSec }) =>
        winner === undefined && claimId === undefined && proposableFromSec <= nowSec,
    )
    if (market === undefined) return undefined
    const outcome = random.chance(0.5)
    const isOwnBond = random.chance(0.4)
    return {
      ...{ ...base, kind: 'propose-resolution', marketAddress: market.contract, outcome },
      ...(isOwnBond ? {} : { bond: signed }),
    }
  }

  #settlement(base: Base, nowSec: number): RelayOperation | undefined {
    const { random } = this.#world
    const market = this.#marketWith(
      (each) => isDue({ nowSec })(each) || (each.claimId !== undefined && random.chance(0.05)),
    )
    if (market === undefined) return undefined
    const asserted = openClaimOf(market)?.outcome ?? 0
    const winningOutcome = (random.chance(0.9) ? asserted : 1 - asserted) as Outcome
    return { ...base, kind: 'settle-market', marketAddress: market.contract, winningOutcome }
  }

  #cancellation(base: Base): RelayOperation | undefined {
    const orders = this.#ordersOf(base.owner, this.#world.random.int(1, 3))
    return orders.length === 0 ? undefined : { ...base, kind: 'cancel-orders', orders }
  }

  #ordersOf(owner: Address, count: number): Order[] {
    const { random, ordersOf } = this.#world
    const known = ordersOf(owner)
    const picked = new Set<Order>()
    for (let at = 0; at < count && known.length > 0; at++) picked.add(random.pick(known))
    return [...picked]
  }

  async #sign(operation: RelayOperation, owner: OwnAccount, off: bigint): Promise<RelayOperation> {
    const { chain, settings, random } = this.#world
    const [at] = settings.chains
    const { settlement, conditionalTokens } = contractsOf(at!)
    const contracts = { settlement, conditionalTokens, stablecoin: stablecoinOf(at!) }
    const wallet = walletOf(chain, owner.address)
    const bond = { nonce: wallet.permits, amount: BOND }
    const next = nonceOf(operation, chain) + off
    const nonces = { nonce: next < 0n ? 0n : next, bond }
    // A delegate may cancel single orders.
    const untilSec = wallet.rights.delegates.get(delegateOf(owner.address))?.untilSec ?? 0
    const isCurrent = untilSec > chain.head.atSec
    const isDelegated = operation.kind === 'cancel-orders' && random.chance(isCurrent ? 0.5 : 0.1)
    const { account, address } = isDelegated ? DELEGATES[OWNERS.indexOf(owner)]! : owner
    const signatures: Pick<SignedPermit, 'v' | 'r' | 's'>[] = []
    for (const message of signedMessages(operation, contracts, nonces)) {
      const text = (await account.signTypedData?.(message as never)) as Hex
      const { r, s, yParity } = parseSignature(text)
      const nonce = BigInt(String(message.message.nonce ?? 0))
      chain.contracts.relay.signed.set(s, { owner: address, nonce })
      signatures.push({ v: yParity === 0 ? 27 : 28, r, s })
    }
    const [first, second] = signatures
    if (operation.kind === 'batch-ctf-redemption') {
      const redemptions = operation.redemptions.map((one, index) => ({
        ...one,
        ...signatures[index]!,
      }))
      return { ...operation, redemptions }
    }
    if (operation.kind === 'propose-resolution' && operation.bond !== undefined) {
      return { ...operation, ...first!, bond: { ...operation.bond, ...second! } }
    }
    return { ...operation, ...first! }
  }
}

type Base = { readonly chainId: number; readonly owner: Address } & SignedPermit

const walletOf = (chain: SimulatedChain, owner: Address) =>
  chain.head.wallets.get(owner) ?? EMPTY_WALLET

/** Returns the nonce of the owner's next signature at the contract of the operation. */
function nonceOf(operation: RelayOperation, chain: SimulatedChain): bigint {
  const { permits, tokensNonce, rights } = walletOf(chain, operation.owner)
  switch (operation.kind) {
    case 'stablecoin-permit':
      return permits
    case 'ctf-approval':
    case 'ctf-redemption':
    case 'batch-ctf-redemption':
      return tokensNonce
    case 'propose-resolution':
    case 'settle-market':
      return rights.marketNonces.get(toAddress(operation.marketAddress)) ?? 0n
    case 'set-delegate':
      return rights.delegations
    default:
      return 0n
  }
}
