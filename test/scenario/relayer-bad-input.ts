/**
 * Tests every mistake in a request to the relayer. Each mistake gets its status and a sentence that names the cause, in
 * the relayer's own format, and costs no gas.
 */

import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { Hex } from 'viem'
import type { RelayRequest } from '#client/relayer.ts'
import { UNIT } from '../contracts/support/world.ts'
import { type Relayed, TTL } from '../support/relayed.ts'

type Body = Record<string, unknown>
type Refusal = { success: boolean; error: string; code: string; field?: string }

const PATHS = [
  'ctf-approval',
  'usdc-permit',
  'stablecoin-permit',
  'ctf-redemption',
  'batch-ctf-redemption',
  'propose-resolution',
  'settle-market',
  'cancel-orders',
  'cancel-all-before',
]
const ADDRESSES = [
  'owner',
  'operator',
  'spender',
  'collateralToken',
  'marketAddress',
  'proposer',
  'settler',
]
const ZERO = `0x${'0'.repeat(40)}`
const STRANGER = `0x${'ab'.repeat(20)}`

export async function refuseBadInput(t: TestContext, relayed: Relayed): Promise<void> {
  const { chain, exchange, person, resolvedMarket, give } = relayed
  const post = async (path: string, body: unknown, raw = JSON.stringify(body)) => {
    const url = `${exchange.url}${path.startsWith('/') ? path : `/api/v1/relayer/${path}`}`
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(url, { method: 'POST', headers, body: raw })
    return { status: response.status, body: (await response.json()) as Refusal }
  }
  const refused = async (
    what: string,
    request: { path: string; body: unknown; raw?: string },
    status: number,
    error: string | RegExp,
    field?: string,
  ) => {
    const answer = await post(request.path, request.body, request.raw)
    const said = `${what}: ${JSON.stringify(answer)}`
    assert.equal(answer.status, status, said)
    assert.equal(answer.body.success, false, said)
    if (typeof error === 'string') assert.equal(answer.body.error, error, said)
    else assert.match(answer.body.error, error, said)
    if (field !== undefined) assert.equal(answer.body.field, field, said)
  }

  const kim = await person(1_000n * UNIT)
  const won = await resolvedMarket()
  const alsoWon = await resolvedMarket('NO')
  const open = await chain.createMarket()
  for (const market of [won, alsoWon]) await give(kim, market, { yes: UNIT, no: UNIT })
  const listed = ({ id, address }: typeof won) => ({ id, contractAddress: address })
  const { sign } = kim.client.relayer
  const markets = [listed(won), listed(alsoWon)]
  const signed: Record<string, RelayRequest> = {
    approval: await sign.ctfApproval(TTL),
    permit: await sign.stablecoinPermit(TTL),
    redemption: await sign.ctfRedemption({ market: listed(won), ...TTL }),
    batch: await sign.batchCtfRedemption({ markets, ...TTL }),
    proposal: await sign.proposeResolution({
      market: listed(open),
      outcome: 'YES',
      ownBond: true,
      ...TTL,
    }),
    settlement: await sign.settleMarket({ market: listed(open), winningOutcome: 'YES', ...TTL }),
  }
  const before = await relayed.sent()
  const { serverTime: nowSec } = await kim.client.relayer.nonces()
  const changed = ({ path, body }: RelayRequest, change: Body) => ({
    path,
    body: { ...body, ...change },
  })
  const without = ({ path, body }: RelayRequest, field: string) => {
    const { [field]: _, ...rest } = body as Body
    return { path, body: rest }
  }
  const requests = Object.entries(signed)
  const redemptions = ((signed.batch as RelayRequest).body as { redemptions: Body[] }).redemptions

  await t.test('a relayer request with a body that is not a JSON object is refused', async () => {
    for (const path of PATHS) {
      for (const raw of ['{', 'owner=1', '', '[]', '"text"', '7', 'null', '{"a":1}}']) {
        await refused(`${path} ${raw}`, { path, body: {}, raw }, 400, 'Invalid request body')
      }
    }
  })

  await t.test('a relayer request with missing, wrong or unknown fields is refused', async () => {
    for (const [name, request] of requests) {
      const body = request.body as Body
      for (const field of Object.keys(body)) {
        const optional = field === 'marketAddress' && name === 'redemption'
        if (!optional && !field.startsWith('bond')) {
          await refused(
            `${name} without ${field}`,
            without(request, field),
            400,
            `${field} is required`,
            field,
          )
        }
        for (const value of [null, {}, [{}], 'x', '', 1.5]) {
          if (field === 'indexSets' || field === 'redemptions') continue
          await refused(
            `${name}: ${field} ${JSON.stringify(value)}`,
            changed(request, { [field]: value }),
            400,
            /./,
            field,
          )
        }
        if (ADDRESSES.includes(field)) {
          for (const value of ['0x12', 5, 'nobody', `0x${'g'.repeat(40)}`, `0x${'1'.repeat(41)}`]) {
            await refused(
              `${name}: ${field} ${value}`,
              changed(request, { [field]: value }),
              400,
              'Invalid address format',
              field,
            )
          }
        }
        if (/^(bond)?[rRsS]$/.test(field)) {
          for (const value of [
            '0x',
            `0x${'1'.repeat(63)}`,
            `0x${'1'.repeat(65)}`,
            'x'.repeat(66),
          ]) {
            await refused(
              `${name}: ${field} ${value}`,
              changed(request, { [field]: value }),
              400,
              'Invalid signature format',
              field,
            )
          }
        }
        if (/^(v|bondV)$/.test(field)) {
          for (const value of [0, 1, 26, 29, '27', 300]) {
            await refused(
              `${name}: ${field} ${value}`,
              changed(request, { [field]: value }),
              400,
              `${field} must be 27 or 28`,
              field,
            )
          }
        }
      }
      const more = changed(request, { extra: 1 })
      await refused(name, more, 400, 'extra is not a field of this request', 'extra')
    }
    const item = { ...redemptions[0], r: '0x1' }
    const [first, second] = redemptions
    await refused(
      'an item',
      changed(signed.batch!, { redemptions: [first, item] }),
      400,
      'Invalid signature format',
      'redemptions[1].r',
    )
    const nowhere = { ...second, marketAddress: 'here' }
    await refused(
      'an item',
      changed(signed.batch!, { redemptions: [nowhere] }),
      400,
      'Invalid address format',
      'redemptions[0].marketAddress',
    )
    const { marketAddress: _, ...placeless } = second as Body
    await refused(
      'an item',
      changed(signed.batch!, { redemptions: [placeless] }),
      400,
      'redemptions[0].marketAddress is required',
    )
    for (const field of ['bondPermitDeadline', 'bondV', 'bondR', 'bondS']) {
      await refused(
        `a bond without ${field}`,
        without(signed.proposal!, field),
        400,
        `${field} is required: give all of bondPermitDeadline, bondV, bondR and bondS, or none`,
        field,
      )
    }
  })

  await t.test(
    'a relayer request for a foreign chain or contract, or with a wrong deadline, is refused',
    async () => {
      for (const [name, request] of requests) {
        for (const chainId of [1, 0, -5, 999_999]) {
          await refused(
            `${name} on ${chainId}`,
            changed(request, { chainId }),
            400,
            'No relayer configured for chain',
            'chainId',
          )
        }
        if (name === 'batch') continue
        for (const [deadline, why] of [
          ['1', /^deadline must be after the current time/],
          [String(nowSec - 1), /^deadline must be after the current time/],
          [String(nowSec + 100 * 86_400), /^deadline must be at most 2592000 seconds after/],
          [String(2n ** 256n - 1n), /^deadline must be at most/],
          [String(2n ** 256n), /^deadline must be an integer from 0 to 2\^256/],
          ['-1', /^deadline must be an integer/],
          ['0x10', /^deadline must be an integer/],
        ] as const) {
          await refused(name, changed(request, { deadline }), 400, why, 'deadline')
        }
      }
      await refused(
        'an operator',
        changed(signed.approval!, { operator: STRANGER }),
        400,
        'operator must be the address of the settlement contract',
      )
      await refused(
        'a spender',
        changed(signed.permit!, { spender: STRANGER }),
        400,
        'spender must be the address of the settlement contract or of the conditional tokens contract',
      )
      await refused(
        'a collateral',
        changed(signed.redemption!, { collateralToken: STRANGER }),
        400,
        "collateralToken must be the address of the exchange's stablecoin",
      )
      await refused(
        'a collection',
        changed(signed.redemption!, { parentCollectionId: `0x${'1'.repeat(64)}` }),
        400,
        'parentCollectionId must be 0x and 64 zeros, because nested positions are not supported',
      )
      for (const [indexSets, why, field] of [
        [[], /indexSets/, 'indexSets'],
        [['1', '2', '1'], /indexSets/, 'indexSets'],
        [['3'], 'indexSets[0] must be 1 (YES) or 2 (NO)', 'indexSets[0]'],
        [['1', '1'], 'indexSets[1] must not repeat an earlier element', 'indexSets[1]'],
        [['x'], /^indexSets\[0\] must be an integer/, 'indexSets[0]'],
      ] as const) {
        const request = changed(signed.redemption!, { indexSets })
        await refused(`sets ${indexSets}`, request, 400, why, field)
      }
      await refused(
        'the zero address',
        changed(signed.approval!, { owner: ZERO }),
        400,
        'owner must not be the zero address',
        'owner',
      )
    },
  )

  await t.test(
    'the relayer refuses a redemption that lists no markets, too many markets, or one market twice',
    async () => {
      const [first, second] = redemptions
      const batch = (items: unknown[]) => changed(signed.batch!, { redemptions: items })
      await refused('none', batch([]), 400, 'redemptions must have at least one element')
      const many = Array.from({ length: 21 }, () => first)
      await refused('many', batch(many), 400, 'redemptions must have at most 20 elements')
      await refused(
        'twice',
        batch([first, second, first]),
        400,
        'redemptions[2].conditionId must differ from the conditionId of redemptions[0]',
      )
      await refused(
        'a late one',
        batch([first, { ...second, deadline: '5' }]),
        400,
        /^redemptions\[1\]\.deadline must be after/,
      )
      // The redemptions of a batch must be in the order of their nonces.
      await refused(
        'turned round',
        batch([second, first]),
        400,
        /^invalid signature: the recovered signer is 0x[0-9a-fA-F]{40}, not .*with nonce 0$/,
        'redemptions[0].r',
      )
    },
  )

  await t.test(
    'the relayer refuses a request that another account signed or whose signature is for another message',
    async () => {
      const lea = await person(UNIT)
      for (const [name, request] of requests) {
        const who = { proposal: 'proposer', settlement: 'settler' }[name] ?? 'owner'
        await refused(
          `${name} for another`,
          changed(request, { [who]: lea.address }),
          400,
          new RegExp(
            `^invalid signature: the recovered signer is 0x[0-9a-fA-F]{40}, not ${lea.address}; the server computed the digest 0x[0-9a-f]{64} with nonce 0$`,
          ),
          name === 'batch' ? 'redemptions[0].r' : 'r',
        )
      }
      const tampered: [keyof typeof signed, Body][] = [
        ['approval', { approved: false }],
        ['permit', { value: '5' }],
        ['permit', { spender: chain.conditionalTokens.address }],
        ['redemption', { indexSets: ['1'] }],
        ['redemption', { deadline: String(nowSec + 999) }],
        ['proposal', { outcome: false }],
        ['settlement', { winningOutcome: 1 }],
      ]
      for (const [name, change] of tampered) {
        await refused(
          `${name} with ${JSON.stringify(change)}`,
          changed(signed[name]!, change),
          400,
          new RegExp(
            `^invalid signature: the recovered signer is 0x[0-9a-fA-F]{40}, not ${kim.address};`,
          ),
        )
      }
      const { s } = (signed.approval as RelayRequest).body as { s: string }
      await refused(
        'a mirrored one',
        changed(signed.approval!, { s: `0x${'f'.repeat(64)}`, r: s }),
        400,
        /^invalid signature: s must be above zero and below the order of the curve/,
      )
      // A redemption that was sent alone cannot be sent again in a batch.
      const mia = await person()
      await give(mia, won, { yes: UNIT })
      const used = await mia.client.relayer.sign.ctfRedemption({ market: listed(won), ...TTL })
      const { tx_hash } = await mia.client.relayer.submit(used)
      await chain.publicClient.waitForTransactionReceipt({ hash: tx_hash as Hex })
      const { chainId, owner, ...item } = used.body as Body
      await refused(
        'a used one',
        { path: 'batch-ctf-redemption', body: { chainId, owner, redemptions: [item] } },
        400,
        'the signature is for nonce 0, which was already used: sign with nonce 1',
        'redemptions[0].r',
      )
    },
  )

  await t.test(
    'the relayer refuses a request for a market that is unknown or not in the required state',
    async () => {
      const { redemption, proposal, settlement } = signed
      await refused(
        'an unknown condition',
        changed(without(redemption!, 'marketAddress') as RelayRequest, {
          conditionId: `0x${'1'.repeat(64)}`,
        }),
        400,
        'conditionId must be a market of this exchange',
      )
      await refused(
        'an unknown market',
        changed(redemption!, { marketAddress: STRANGER }),
        400,
        'marketAddress must be a market of this exchange',
      )
      await refused(
        'another market',
        changed(redemption!, { marketAddress: alsoWon.address }),
        400,
        'marketAddress must be the market of conditionId',
      )
      for (const request of [proposal!, settlement!]) {
        await refused(
          'an unknown market',
          changed(request, { marketAddress: chain.settlement.address }),
          400,
          'marketAddress must be a market of this exchange',
        )
      }
      await refused(
        'an open market',
        await sign.ctfRedemption({ market: listed(open), ...TTL }),
        422,
        'the market is not resolved yet',
      )
      await refused('an open market', proposal!, 422, /^the market has not expired/)
      await refused('an open market', settlement!, 422, /^the market has no proposal/)
    },
  )

  await t.test('a relayer request of an owner without the required tokens is refused', async () => {
    const ned = await person()
    for (const request of [
      await ned.client.relayer.sign.ctfApproval(TTL),
      await ned.client.relayer.sign.stablecoinPermit(TTL),
    ]) {
      const why = 'the owner has neither stablecoin nor outcome tokens of this exchange'
      await refused(request.path, request, 422, why, 'owner')
    }
  })

  await t.test('the relayer’s routes refuse unknown methods, paths and content types', async () => {
    const get = await fetch(`${exchange.url}/api/v1/relayer/ctf-approval`)
    assert.equal(get.status, 405)
    assert.equal(((await get.json()) as Refusal).success, false)
    const text = await fetch(`${exchange.url}/api/v1/relayer/ctf-approval`, {
      method: 'POST',
      body: 'x=1',
    })
    assert.equal(text.status, 415)
    assert.equal(((await text.json()) as Refusal).success, false)
    await refused('a path', { path: 'mint', body: {} }, 404, /./)
    const nonces = await fetch(
      `${exchange.url}/api/v1/relayer/nonces?chain_id=31337&owner=${kim.address}&market=${STRANGER}`,
    )
    assert.equal(nonces.status, 400)
    assert.match(
      ((await nonces.json()) as Refusal).error,
      /market must be a market of this exchange/,
    )
  })

  // Only the one valid redemption was sent.
  assert.equal(await relayed.sent(), before + 1)
}
