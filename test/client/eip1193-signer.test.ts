/** Tests a browser's wallet as a signer. Every request to the wallet must survive conversion to JSON. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recoverMessageAddress, recoverTypedDataAddress } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { buildOrder } from '#client/build-order.ts'
import { eip1193Signer } from '#client/eip1193-signer.ts'
import { orderTypedData, signOrder } from '#client/sign-order.ts'
import type { Address } from '#domain/ids.ts'
import type { Order } from '#domain/order.ts'

const account = privateKeyToAccount(
  '0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d',
)
const domain = {
  chainId: 31337,
  verifyingContract: '0x5FbDB2315678afecb367f032d93F642f64180aa3' as Address,
}
const draft = buildOrder({
  ...{ marketId: `0x${'ab'.repeat(32)}`, side: 'buy', outcome: 'YES' },
  ...{ price: '0.42', size: '9007199254.740991', ttlSeconds: 3_600, nonce: '18446744073709551615' },
})

/** Makes a wallet with a key on one chain. It converts each request to JSON and back. */
function walletOn(chainId: number) {
  const asked: string[] = []
  return {
    asked,
    async request({ method, params = [] }: { method: string; params?: readonly unknown[] }) {
      asked.push(method)
      const [first, second] = JSON.parse(JSON.stringify(params)) as string[]
      switch (method) {
        case 'eth_requestAccounts':
          return [account.address]
        case 'eth_chainId':
          return `0x${chainId.toString(16)}`
        case 'eth_signTypedData_v4': {
          assert.equal(first, account.address)
          const { domain, types, primaryType, message } = JSON.parse(second ?? '')
          assert.deepEqual(
            types.EIP712Domain.map(({ name }: { name: string }) => name),
            Object.keys(domain),
          )
          return account.signTypedData({ domain, types, primaryType, message })
        }
        case 'personal_sign':
          return account.signMessage({ message: { raw: first as `0x${string}` } })
        default:
          throw Object.assign(new Error('no'), { code: 4001 })
      }
    },
  }
}

test('orders and messages signed through a browser wallet have valid signatures of the wallet’s account', async () => {
  const wallet = walletOn(31337)
  const signer = await eip1193Signer(wallet)
  assert.equal(signer.address, account.address)
  const { order, signature } = await signOrder(draft, signer, domain)
  const recovered = await recoverTypedDataAddress({
    ...orderTypedData(order as Order, domain),
    signature: signature as `0x${string}`,
  })
  assert.equal(recovered, account.address)
  assert.deepEqual(wallet.asked, ['eth_requestAccounts', 'eth_chainId', 'eth_signTypedData_v4'])

  const message = 'Ünïcode, und mehr'
  const text = await signer.signMessage({ message })
  const by = await recoverMessageAddress({ message, signature: text as `0x${string}` })
  assert.equal(by, account.address)
})

test('the browser wallet signer fails with separate errors for a wrong chain, a refusal and a missing account', async () => {
  const elsewhere = await eip1193Signer(walletOn(137), { address: account.address })
  await assert.rejects(signOrder(draft, elsewhere, domain), {
    code: 'WRONG_CHAIN',
    message: 'the wallet is on chain 137; switch it to chain 31337',
  })
  const refusing = (code: number) => ({
    request: async () => {
      throw Object.assign(new Error('no'), { code })
    },
  })
  await assert.rejects(eip1193Signer(refusing(4001)), { code: 'SIGNATURE_REFUSED' })
  await assert.rejects(eip1193Signer(refusing(-32603)), { code: 'WALLET_FAILED' })
  await assert.rejects(eip1193Signer({ request: async () => [] }), { code: 'INVALID_FIELD' })
})
