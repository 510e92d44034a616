import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hashTypedData, type TypedDataDefinition } from 'viem'
import { type Address, parseAddress } from '#domain/ids.ts'
import {
  marketDomain,
  ORDER_TYPES,
  settlementDomain,
  signatureSchemes,
  typeString,
} from '#domain/typed-data.ts'

const address = (byte: string): Address => {
  const parsed = parseAddress(`0x${byte.repeat(20)}`)
  assert.ok(parsed)
  return parsed
}

const chain = {
  chainId: 31_337,
  settlement: address('11'),
  conditionalTokens: address('22'),
  stablecoin: { address: address('33'), domainName: 'USD Coin', domainVersion: '2' },
}

test('the EIP-712 type string of each signed message equals its published text', () => {
  const schemes = signatureSchemes(chain)
  const strings = Object.fromEntries(
    Object.entries(schemes).map(([name, { primaryType, types }]) => [
      name,
      typeString(primaryType, types),
    ]),
  )
  assert.deepEqual(strings, {
    order: [
      'Order(bytes32 marketId,address trader,uint8 side,uint8 outcome,uint64 price,uint64 size',
      'uint64 nonce,uint64 expiration,address makerFeeRecipient)',
    ].join(),
    cancelOrders: 'CancelOrders(address trader,bytes32[] orderHashes,uint256 deadline)',
    cancelAllBefore: 'CancelAllBefore(address trader,uint64 nonce,uint256 deadline)',
    ctfApproval:
      'ApprovalForAll(address owner,address operator,bool approved,uint256 nonce,uint256 deadline)',
    ctfRedemption: [
      'RedeemPositions(address owner,address collateralToken,bytes32 parentCollectionId',
      'bytes32 conditionId,uint256[] indexSets,uint256 nonce,uint256 deadline)',
    ].join(),
    stablecoinPermit:
      'Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)',
    proposeResolution:
      'ProposeResolution(address proposer,bool outcome,uint256 nonce,uint256 deadline)',
    settleMarket:
      'SettleMarket(address settler,uint8 winningOutcome,uint256 nonce,uint256 deadline)',
    setDelegate: [
      'SetDelegate(address account,address delegate,uint64 until,uint64 maxOrderSize',
      'uint64 maxOpenNotional,bytes32[] markets,uint256 nonce,uint256 deadline)',
    ].join(),
  })
})

test('each EIP-712 domain contains its contract’s address, except for proposals and settlements of a market', () => {
  const { order, ctfApproval, ctfRedemption, stablecoinPermit, proposeResolution, settleMarket } =
    signatureSchemes(chain)
  assert.deepEqual(order.domain, {
    name: 'SibylSettlement',
    version: '1',
    chainId: 31_337,
    verifyingContract: chain.settlement,
  })
  assert.equal(order.nonce, undefined)
  assert.equal(ctfApproval.domain.verifyingContract, chain.conditionalTokens)
  assert.deepEqual(ctfRedemption.domain, ctfApproval.domain)
  assert.equal(stablecoinPermit.domain.version, '2')
  for (const scheme of [proposeResolution, settleMarket]) {
    assert.equal('verifyingContract' in scheme.domain, false)
    assert.equal('contract' in scheme.nonce!, false)
  }
  assert.deepEqual(marketDomain(chain.chainId, address('44')), {
    ...settleMarket.domain,
    verifyingContract: address('44'),
  })
})

test('an EIP-712 library computes the same order hash from the published scheme as from our types', () => {
  const scheme = signatureSchemes(chain).order
  const message = {
    marketId: `0x${'ab'.repeat(32)}`,
    trader: address('55'),
    side: 0,
    outcome: 1,
    price: 420_000n,
    size: 1_000_000n,
    nonce: 2n ** 64n - 1n,
    expiration: 1_800_000_000n,
    makerFeeRecipient: address('00'),
  }
  const whole = hashTypedData({ ...scheme, message } as unknown as TypedDataDefinition)
  const parts = hashTypedData({
    domain: settlementDomain(chain.chainId, chain.settlement),
    types: ORDER_TYPES,
    primaryType: 'Order',
    message: message as never,
  })
  assert.equal(whole, parts)
})
