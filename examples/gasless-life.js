/**
 * The life of a market for a trader without ether: the trader only signs, and the exchange pays the gas. The program
 * moves the clock of the devnet by some hours.
 */

import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { connect, demoTrader, sibyl } from './connect.js'

const account = privateKeyToAccount(generatePrivateKey())
const fay = connect(account)
const bob = demoTrader(11) // has ether: sends fay dollars, and sells shares

const question = `Is this a life without ether? ${Date.now()}`
/** @type {{ id: string }} */
const { id } = sibyl('market', 'create', '--question', question, '--seconds', '7200')
const market = await fay.market(id)
await bob.chain.transfer(account.address, '100')
await bob.chain.split(id, '50') // fifty dollars become fifty YES and fifty NO

await fay.relayer.stablecoinPermit() // the exchange may take fay's dollars,
await fay.relayer.ctfApproval() // and shares when fay sells some

const terms = { marketId: id, outcome: /** @type {const} */ ('YES'), price: '0.90', size: '50' }
await bob.orders.place({ ...terms, side: 'sell', ttlSeconds: 3_600 })
await fay.orders.place({ ...terms, side: 'buy', ttlSeconds: 3_600 }) // bob's, or cheaper ones
await until(async () => (await fay.chain.balances({ marketId: id })).yes === 50_000_000n)
console.log('the trade is settled: fay has 50 YES')

sibyl('warp', '--seconds', '7300')
await fay.resolution.waitFor(id, 'expired')
await fay.resolution.propose({ market, outcome: 'YES' }) // on a devnet the relayer posts the bond
await fay.resolution.waitFor(id, 'proposed')
sibyl('warp', '--seconds', '7201') // two hours pass without a dispute
await fay.resolution.settle({ market, winningOutcome: 'YES' })
await fay.resolution.waitFor(id, 'resolved')

const before = (await fay.chain.balances()).stablecoin
await fay.relayer.ctfRedemption({ market })
await until(async () => (await fay.chain.balances()).stablecoin > before)
const { stablecoin, ether } = await fay.chain.balances()
console.log(`fay has ${Number(stablecoin) / 1e6} dollars and ${ether} ether`)

/** @param {() => Promise<boolean>} holds */
async function until(holds) {
  while (!(await holds())) await new Promise((resolve) => setTimeout(resolve, 200))
}
