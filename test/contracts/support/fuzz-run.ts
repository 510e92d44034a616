/** `npm run fuzz -- contracts [calls [seed]]`: the long run of the settlement fuzz test. */
import { fuzz } from './fuzz.ts'

const calls = Number(process.argv[2] ?? 100_000)
const seed = Number(process.argv[3] ?? Date.now() % 2 ** 31)
console.log(`settlement fuzz: ${calls} calls, seed ${seed}`)
console.log(await fuzz({ seed, calls, log: console.log }))
