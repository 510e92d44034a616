/**
 * Operations on the chain for traders without ether. The client's signer signs an operation, but only for contracts
 * that the client trusts (`trusted-chain.ts`). The relayer then sends the operation and pays the gas. Signing and
 * sending are separate calls, so that a signed request can be stored and sent again. Even if the request is sent
 * several times, it results in only one transaction.
 */

import { toAddress } from '#domain/ids.ts'
import type { Order } from '#domain/order.ts'
import { orderHash } from '#domain/order-hash.ts'
import type { ChainConfig } from '#protocol/shapes/config.ts'
import type { Relayed, RelayedBatch, RelayerNonces } from '#protocol/shapes/relayer.ts'
import { type Amount, readAllowance, readAmount } from './amount.ts'
import type { Claim } from './answers.ts'
import { nextNonce } from './order-nonce.ts'
import { SibylError } from './sibyl-error.ts'
import { type OrderSigner, signerAddress } from './sign-order.ts'
import { type SignatureParts, signTypedData, type TypedData } from './sign-typed-data.ts'
import type { CallOptions, Transport } from './transport.ts'

type Chain = ChainConfig

/** A signed request. It may be sent any number of times, but is executed only once. */
export type RelayRequest = { readonly path: string; readonly body: object }

type Common = {
  /** Seconds for which the signature is valid; an hour by default. */
  readonly ttlSeconds?: number
}

export type ApprovalIntent = Common & {
  /** False revokes the approval. */
  readonly approved?: boolean
}

export type PermitIntent = Common & {
  /**
   * Amount to allow; 10,000 dollars by default. `'unlimited'` is the largest uint256. A permit replaces the previous
   * allowance.
   */
  readonly value?: Amount | 'unlimited'
  /** Contract that may take the amount; the settlement contract by default. */
  readonly spender?: string
}

/** A market of `client.markets()`, or just these two fields. */
export type RelayMarket = { readonly id: string; readonly contractAddress: string }

export type RedemptionIntent = Common & {
  readonly market: RelayMarket
  /** Outcome to redeem; both by default. */
  readonly outcome?: 'YES' | 'NO'
}

export type BatchRedemptionIntent = Common & { readonly markets: readonly RelayMarket[] }

export type ProposalIntent = Common & {
  readonly market: Pick<RelayMarket, 'contractAddress'>
  readonly outcome: 'YES' | 'NO'
  /** True if the signer pays the bond. Default: true on a main chain, where it must be true; false on a test chain. */
  readonly ownBond?: boolean
  /**
   * Maximum bond that the signer permits; 1,000 dollars by default. The exchange sets the bond, so this limit protects
   * the signer.
   */
  readonly bondMax?: Amount
}

export type SettlementIntent = Common & {
  readonly market: Pick<RelayMarket, 'contractAddress'>
  readonly winningOutcome: 'YES' | 'NO'
}

export type CancellationIntent = Common & {
  /** Signed orders: the field `order` of each result of `orders.sign`. */
  readonly orders: readonly Order[]
}

export type EpochIntent = Common & {
  /** Orders with a lower nonce are cancelled; by default all orders signed until now. */
  readonly nonce?: string | bigint
}

export type DelegationIntent = Common & {
  /** Address of the key that may sign for the signer's account. */
  readonly delegate: string
  /** Unix seconds; 0 revokes. */
  readonly until: number
  /** Largest order in shares; no limit by default. */
  readonly maxOrderSize?: Amount
  /** Largest sum of price × open size over the delegate's open orders, in dollars; no limit by default. */
  readonly maxOpenNotional?: Amount
  /** Ids of the markets in which the delegate may trade; all by default. */
  readonly markets?: readonly string[]
}

export type Relayer = {
  /** Functions that build and sign a request without sending it. */
  readonly sign: {
    ctfApproval(intent?: ApprovalIntent): Promise<RelayRequest>
    stablecoinPermit(intent?: PermitIntent): Promise<RelayRequest>
    ctfRedemption(intent: RedemptionIntent): Promise<RelayRequest>
    batchCtfRedemption(intent: BatchRedemptionIntent): Promise<RelayRequest>
    proposeResolution(intent: ProposalIntent): Promise<RelayRequest>
    settleMarket(intent: SettlementIntent): Promise<RelayRequest>
    cancelOrders(intent: CancellationIntent): Promise<RelayRequest>
    cancelAllBefore(intent?: EpochIntent): Promise<RelayRequest>
    setDelegate(intent: DelegationIntent): Promise<RelayRequest>
  }
  /** Sends a signed request; sending it again is safe. */
  submit<Answer = Relayed>(request: RelayRequest, options?: CallOptions): Promise<Answer>
  /** Allows or forbids the exchange to move the signer's outcome tokens. */
  ctfApproval(intent?: ApprovalIntent, options?: CallOptions): Promise<Relayed>
  /** Allows the exchange to spend the signer's stablecoin. */
  stablecoinPermit(intent?: PermitIntent, options?: CallOptions): Promise<Relayed>
  /** Redeems the tokens of a resolved market for their payout. */
  ctfRedemption(intent: RedemptionIntent, options?: CallOptions): Promise<Relayed>
  /** Redeems tokens of several markets in one transaction. */
  batchCtfRedemption(intent: BatchRedemptionIntent, options?: CallOptions): Promise<RelayedBatch>
  /** Proposes the outcome of an expired market. */
  proposeResolution(intent: ProposalIntent, options?: CallOptions): Promise<Relayed>
  /** Settles a proposed outcome after the dispute window. */
  settleMarket(intent: SettlementIntent, options?: CallOptions): Promise<Relayed>
  /** Cancels orders on the chain. After the contract's cancel delay, even the exchange cannot settle them. */
  cancelOrders(intent: CancellationIntent, options?: CallOptions): Promise<Relayed>
  /**
   * Cancels, on the chain, all orders of the signer with a nonce below the given one, including orders never sent to
   * the exchange.
   */
  cancelAllBefore(intent?: EpochIntent, options?: CallOptions): Promise<Relayed>
  /** Appoints, changes or revokes a key that signs orders of the signer's account. */
  setDelegate(intent: DelegationIntent, options?: CallOptions): Promise<Relayed>
  /** Returns the nonces for the next signatures of an owner; by default the signer's. */
  nonces(
    asked?: { readonly owner?: string | undefined; readonly market?: string | undefined },
    options?: CallOptions,
  ): Promise<RelayerNonces>
  pendingClaims(options?: CallOptions): Promise<Claim[]>
  failedClaims(options?: CallOptions): Promise<Claim[]>
}

const TTL_SECONDS = 3_600
const BOND_MAX: Amount = '1000'
const NO_COLLECTION = `0x${'0'.repeat(64)}`
const INDEX_SETS = { YES: ['1'], NO: ['2'], both: ['1', '2'] } as const

type RelayerPorts = {
  readonly send: Transport
  readonly chain: () => Promise<Chain>
  readonly signer: () => OrderSigner
  /**
   * Returns the current time in Unix seconds. The deadline of a signature is counted from this time. `serverTime`, the
   * exchange's time, corrects this machine's clock.
   */
  readonly nowSec: (chainId: number, serverTime: number) => number
}

type Begun = { chain: Chain; owner: string; known: RelayerNonces; deadline: bigint }

/** Functions that start an operation and sign its messages. */
type SigningParts = ReturnType<typeof makeSigningParts>

function makeSigningParts(
  ports: RelayerPorts,
  nonces: (asked: { readonly market?: string | undefined }) => Promise<RelayerNonces>,
) {
  const { signer } = ports

  /** Returns everything that a message needs: signer, contracts, nonces and deadline. */
  async function begin(intent: Common, market?: string): Promise<Begun> {
    const [chain, known] = await Promise.all([ports.chain(), nonces({ market })])
    const nowSec = ports.nowSec(chain.chainId, known.serverTime)
    const deadline = BigInt(nowSec + (intent.ttlSeconds ?? TTL_SECONDS))
    return { chain, owner: await signerAddress(signer()), known, deadline }
  }

  function sign(
    chain: Chain,
    name: keyof Chain['signatures'],
    message: TypedData['message'],
    market?: string,
  ): Promise<SignatureParts> {
    return signTypedData(signer(), chain.signatures[name], message, market)
  }

  async function redemption(
    { chain, owner, deadline }: { chain: Chain; owner: string; deadline: bigint },
    market: RelayMarket,
    indexSets: readonly string[],
    nonce: bigint,
  ): Promise<object> {
    const what = {
      collateralToken: chain.stablecoin.address,
      parentCollectionId: NO_COLLECTION,
      conditionId: market.id,
    }
    const sets = indexSets.map(BigInt)
    const message = { owner, ...what, indexSets: sets, nonce, deadline }
    const signature = await sign(chain, 'ctfRedemption', message)
    const marketAddress = market.contractAddress
    return { ...what, indexSets, marketAddress, deadline: String(deadline), ...signature }
  }

  return { begin, sign, redemption }
}

/** Makes the functions that sign approvals, permits and redemptions. */
function tokenSigning({
  begin,
  sign,
  redemption,
}: SigningParts): Pick<
  Relayer['sign'],
  'ctfApproval' | 'stablecoinPermit' | 'ctfRedemption' | 'batchCtfRedemption'
> {
  return {
    async ctfApproval(intent = {}) {
      const { chain, owner, known, deadline } = await begin(intent)
      const { approved = true } = intent
      const operator = chain.contracts.settlement
      const nonce = BigInt(known.conditionalTokens)
      const message = { owner, operator, approved, nonce, deadline }
      const signature = await sign(chain, 'ctfApproval', message)
      const what = { chainId: chain.chainId, owner, operator, approved }
      return request('ctf-approval', { ...what, deadline: String(deadline), ...signature })
    },

    async stablecoinPermit(intent = {}) {
      const { chain, owner, known, deadline } = await begin(intent)
      const spender = intent.spender ?? chain.contracts.settlement
      const value = readAllowance(intent.value)
      const message = { owner, spender, value, nonce: BigInt(known.stablecoin), deadline }
      const signature = await sign(chain, 'stablecoinPermit', message)
      const what = { chainId: chain.chainId, owner, spender, value: String(value) }
      return request('stablecoin-permit', { ...what, deadline: String(deadline), ...signature })
    },

    async ctfRedemption(intent) {
      const begun = await begin(intent)
      const { chain, owner, known } = begun
      const sets = INDEX_SETS[intent.outcome ?? 'both']
      const nonce = BigInt(known.conditionalTokens)
      const one = await redemption(begun, intent.market, sets, nonce)
      return request('ctf-redemption', { chainId: chain.chainId, owner, ...one })
    },

    async batchCtfRedemption(intent) {
      const begun = await begin(intent)
      const { chain, owner, known } = begun
      const redemptions: object[] = []
      for (const [at, market] of intent.markets.entries()) {
        const nonce = BigInt(known.conditionalTokens) + BigInt(at)
        redemptions.push(await redemption(begun, market, INDEX_SETS.both, nonce))
      }
      return request('batch-ctf-redemption', { chainId: chain.chainId, owner, redemptions })
    },
  }
}

/** Makes the functions that sign proposals and settlements of markets. */
function marketSigning({
  begin,
  sign,
}: SigningParts): Pick<Relayer['sign'], 'proposeResolution' | 'settleMarket'> {
  return {
    async proposeResolution(intent) {
      const { contractAddress: marketAddress } = intent.market
      const { chain, owner, known, deadline } = await begin(intent, marketAddress)
      const outcome = intent.outcome === 'YES'
      const nonce = BigInt(known.market ?? 0)
      const message = { proposer: owner, outcome, nonce, deadline }
      const signature = await sign(chain, 'proposeResolution', message, marketAddress)
      const what = { chainId: chain.chainId, marketAddress, proposer: owner, outcome }
      const body = { ...what, deadline: String(deadline), ...signature }
      if (!(intent.ownBond ?? chain.role === 'main')) return request('propose-resolution', body)
      const permit = {
        owner,
        spender: marketAddress,
        value: boundedBond(known.bond, intent.bondMax),
        nonce: BigInt(known.stablecoin),
        deadline,
      }
      const bond = await sign(chain, 'stablecoinPermit', permit)
      return request('propose-resolution', {
        ...body,
        bondPermitDeadline: String(deadline),
        bondV: bond.v,
        bondR: bond.r,
        bondS: bond.s,
      })
    },

    async settleMarket(intent) {
      const { contractAddress: marketAddress } = intent.market
      const { chain, owner, known, deadline } = await begin(intent, marketAddress)
      const winningOutcome = intent.winningOutcome === 'YES' ? 0 : 1
      const message = { settler: owner, winningOutcome, nonce: BigInt(known.market ?? 0), deadline }
      const signature = await sign(chain, 'settleMarket', message, marketAddress)
      const what = { chainId: chain.chainId, marketAddress, settler: owner, winningOutcome }
      return request('settle-market', { ...what, deadline: String(deadline), ...signature })
    },
  }
}

/** Makes the functions that sign cancels of orders on the chain. */
function cancelSigning({
  begin,
  sign,
}: SigningParts): Pick<Relayer['sign'], 'cancelOrders' | 'cancelAllBefore'> {
  return {
    async cancelOrders(intent) {
      const { chain, owner, deadline } = await begin(intent)
      const { chainId } = chain
      const domain = { chainId, verifyingContract: toAddress(chain.contracts.settlement) }
      const orderHashes = intent.orders.map((order) => orderHash(order, domain))
      const message = { trader: owner, orderHashes, deadline }
      const signature = await sign(chain, 'cancelOrders', message)
      const what = { chainId, owner, orders: intent.orders }
      return request('cancel-orders', { ...what, deadline: String(deadline), ...signature })
    },

    async cancelAllBefore(intent = {}) {
      const nonce = BigInt(intent.nonce ?? nextNonce())
      const { chain, owner, deadline } = await begin(intent)
      const message = { trader: owner, nonce, deadline }
      const signature = await sign(chain, 'cancelAllBefore', message)
      const what = { chainId: chain.chainId, owner, nonce: String(nonce) }
      return request('cancel-all-before', { ...what, deadline: String(deadline), ...signature })
    },
  }
}

/** Makes the function that signs delegations of the signer's account. */
function delegateSigning({ begin, sign }: SigningParts): Pick<Relayer['sign'], 'setDelegate'> {
  return {
    async setDelegate(intent) {
      const { chain, owner, known, deadline } = await begin(intent)
      const { delegate, until, maxOrderSize, maxOpenNotional, markets = [] } = intent
      const limitOf = (name: string, amount: Amount | undefined): bigint =>
        amount === undefined ? 0n : BigInt(readAmount(name, amount))
      const limits = {
        maxOrderSize: limitOf('maxOrderSize', maxOrderSize),
        maxOpenNotional: limitOf('maxOpenNotional', maxOpenNotional),
      }
      const signature = await sign(chain, 'setDelegate', {
        ...{ account: owner, delegate, until: BigInt(until), ...limits, markets },
        ...{ nonce: BigInt(known.delegates ?? 0), deadline },
      })
      return request('set-delegate', {
        ...{ chainId: chain.chainId, owner, delegate, until: String(until) },
        maxOrderSize: String(limits.maxOrderSize),
        maxOpenNotional: String(limits.maxOpenNotional),
        ...{ markets, deadline: String(deadline), ...signature },
      })
    },
  }
}

function makeSigning(
  ports: RelayerPorts,
  nonces: (asked: { readonly market?: string | undefined }) => Promise<RelayerNonces>,
): Relayer['sign'] {
  const parts = makeSigningParts(ports, nonces)
  return {
    ...tokenSigning(parts),
    ...marketSigning(parts),
    ...cancelSigning(parts),
    ...delegateSigning(parts),
  }
}

export function createRelayer(ports: RelayerPorts): Relayer {
  const { send, signer } = ports

  async function nonces(
    asked: { readonly owner?: string | undefined; readonly market?: string | undefined } = {},
    call?: CallOptions,
  ): Promise<RelayerNonces> {
    const { chainId } = await ports.chain()
    const owner = asked.owner ?? (await signerAddress(signer()))
    const query = { chain_id: chainId, owner, market: asked.market }
    return send({ method: 'GET', path: '/api/v1/relayer/nonces', query }, call)
  }

  const signing = makeSigning(ports, nonces)

  function submit<Answer>({ path, body }: RelayRequest, call?: CallOptions): Promise<Answer> {
    return send<Answer>({ method: 'POST', path, body }, call)
  }

  async function claims(path: string, call?: CallOptions): Promise<Claim[]> {
    return (await send<{ claims: Claim[] }>({ method: 'GET', path }, call)).claims
  }

  return {
    sign: signing,
    submit,
    ctfApproval: async (intent, call) => submit(await signing.ctfApproval(intent), call),
    stablecoinPermit: async (intent, call) => submit(await signing.stablecoinPermit(intent), call),
    ctfRedemption: async (intent, call) => submit(await signing.ctfRedemption(intent), call),
    batchCtfRedemption: async (intent, call) =>
      submit(await signing.batchCtfRedemption(intent), call),
    proposeResolution: async (intent, call) =>
      submit(await signing.proposeResolution(intent), call),
    settleMarket: async (intent, call) => submit(await signing.settleMarket(intent), call),
    cancelOrders: async (intent, call) => submit(await signing.cancelOrders(intent), call),
    cancelAllBefore: async (intent, call) => submit(await signing.cancelAllBefore(intent), call),
    setDelegate: async (intent, call) => submit(await signing.setDelegate(intent), call),
    nonces,
    pendingClaims: (call) => claims('/api/v1/pending-claims', call),
    failedClaims: (call) => claims('/api/v1/failed-claims', call),
  }
}

function boundedBond(bond = '0', bondMax = BOND_MAX): bigint {
  const most = BigInt(readAmount('bondMax', bondMax))
  const value = BigInt(bond)
  if (value <= most) return value
  const message =
    `the bond is ${value} millionths of the stablecoin, but bondMax is ${most} millionths; ` +
    'nothing was signed'
  throw new SibylError('BOND_TOO_HIGH', message, { field: 'bondMax' })
}

function request(name: string, body: object): RelayRequest {
  return { path: `/api/v1/relayer/${name}`, body }
}
