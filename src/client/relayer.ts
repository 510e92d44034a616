/**
 * Operations on chain without ether: each is signed by the client's signer for the contracts that the
 * client trusts (`trusted-chain.ts`), and sent to the relayer, which pays. Signing and sending are apart, so that a signed
 * request can be kept and sent again: the chain sees one transaction.
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

/** A signed request, ready to be sent as often as need be. */
export type RelayRequest = { readonly path: string; readonly body: object }

type Common = {
  /** How long the signature is good; an hour if not said. */
  readonly ttlSeconds?: number
}

export type ApprovalIntent = Common & {
  /** False takes the approval back. */
  readonly approved?: boolean
}

export type PermitIntent = Common & {
  /** 10,000 dollars by default. `'unlimited'` is the largest uint256; a permit replaces the allowance before it. */
  readonly value?: Amount | 'unlimited'
  /** The settlement contract if not said. */
  readonly spender?: string
}

/** A market as `client.markets()` lists it, or the two members of it that matter. */
export type RelayMarket = { readonly id: string; readonly contractAddress: string }

export type RedemptionIntent = Common & {
  readonly market: RelayMarket
  /** Both if not said. */
  readonly outcome?: 'YES' | 'NO'
}

export type BatchRedemptionIntent = Common & { readonly markets: readonly RelayMarket[] }

export type ProposalIntent = Common & {
  readonly market: Pick<RelayMarket, 'contractAddress'>
  readonly outcome: 'YES' | 'NO'
  /** Whether the bond is the signer's own; on a main chain it has to be. */
  readonly ownBond?: boolean
  /** The largest bond to permit; 1,000 dollars by default. The exchange names the bond, so it is bounded here. */
  readonly bondMax?: Amount
}

export type SettlementIntent = Common & {
  readonly market: Pick<RelayMarket, 'contractAddress'>
  readonly winningOutcome: 'YES' | 'NO'
}

export type CancellationIntent = Common & {
  /** As they were signed: `order` of what `orders.sign` gave. */
  readonly orders: readonly Order[]
}

export type EpochIntent = Common & {
  /** Orders with a lower nonce are withdrawn; all that were signed until now if not said. */
  readonly nonce?: string | bigint
}

export type Relayer = {
  /** Builds and signs, and sends nothing. */
  readonly sign: {
    ctfApproval(intent?: ApprovalIntent): Promise<RelayRequest>
    stablecoinPermit(intent?: PermitIntent): Promise<RelayRequest>
    ctfRedemption(intent: RedemptionIntent): Promise<RelayRequest>
    batchCtfRedemption(intent: BatchRedemptionIntent): Promise<RelayRequest>
    proposeResolution(intent: ProposalIntent): Promise<RelayRequest>
    settleMarket(intent: SettlementIntent): Promise<RelayRequest>
    cancelOrders(intent: CancellationIntent): Promise<RelayRequest>
    cancelAllBefore(intent?: EpochIntent): Promise<RelayRequest>
  }
  /** Sends a signed request; again as often as need be. */
  submit<Answer = Relayed>(request: RelayRequest, options?: CallOptions): Promise<Answer>
  /** Lets the exchange move the signer's outcome tokens, or stops it. */
  ctfApproval(intent?: ApprovalIntent, options?: CallOptions): Promise<Relayed>
  /** Lets the exchange spend the signer's stablecoin. */
  stablecoinPermit(intent?: PermitIntent, options?: CallOptions): Promise<Relayed>
  /** Turns the tokens of a resolved market into what they are worth. */
  ctfRedemption(intent: RedemptionIntent, options?: CallOptions): Promise<Relayed>
  /** … of several markets, in one transaction. */
  batchCtfRedemption(intent: BatchRedemptionIntent, options?: CallOptions): Promise<RelayedBatch>
  /** Proposes the outcome of an expired market. */
  proposeResolution(intent: ProposalIntent, options?: CallOptions): Promise<Relayed>
  /** Settles what was proposed, after the dispute window. */
  settleMarket(intent: SettlementIntent, options?: CallOptions): Promise<Relayed>
  /** Withdraws orders on chain, so that not even the exchange can settle them after its delay. */
  cancelOrders(intent: CancellationIntent, options?: CallOptions): Promise<Relayed>
  /** … all orders of the signer with a lower nonce, those that only the signer has seen among them. */
  cancelAllBefore(intent?: EpochIntent, options?: CallOptions): Promise<Relayed>
  /** What the next signatures need; of the signer if no owner is named. */
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

export function createRelayer(ports: {
  readonly send: Transport
  readonly chain: () => Promise<Chain>
  readonly signer: () => OrderSigner
  /** The time to count deadlines from, given the exchange's own. */
  readonly nowSec: (chainId: number, serverTime: number) => number
}): Relayer {
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

  /** Everything that a message needs: who, where, which nonces, until when. */
  async function begin(
    intent: Common,
    market?: string,
  ): Promise<{ chain: Chain; owner: string; known: RelayerNonces; deadline: bigint }> {
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

  const signing: Relayer['sign'] = {
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
    nonces,
    pendingClaims: (call) => claims('/api/v1/pending-claims', call),
    failedClaims: (call) => claims('/api/v1/failed-claims', call),
  }
}

function boundedBond(bond = '0', bondMax = BOND_MAX): bigint {
  const most = BigInt(readAmount('bondMax', bondMax))
  const value = BigInt(bond)
  if (value <= most) return value
  const message = `the bond of ${value} is above bondMax ${most}, both in millionths; nothing was signed`
  throw new SibylError('BOND_TOO_HIGH', message, { field: 'bondMax' })
}

function request(name: string, body: object): RelayRequest {
  return { path: `/api/v1/relayer/${name}`, body }
}
