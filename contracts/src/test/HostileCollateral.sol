// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {ERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Permit.sol";

/// TEST ONLY. A stablecoin that blocks accounts as real ones do, and misbehaves in every way that a
/// token can.
contract HostileCollateral is ERC20, ERC20Permit {
    enum Mode {
        Honest,
        ReturnFalse,
        ReturnNothing,
        Refuse,
        RefuseHugely,
        AnswerHugely,
        BurnGas,
        CallBack,
        TakeFee
    }

    /// In mode `TakeFee`, the receiver of a transfer pays 1 / `FEE_PART` of the received value as a fee.
    uint256 public constant FEE_PART = 50;
    address public constant FEE_RECEIVER = address(0xfee);

    mapping(address account => bool) public blocked;
    Mode private _mode;
    address private _target;
    bytes private _data;

    event CalledBack(bool success, bytes returned);

    constructor() ERC20("USD Coin", "USDC") ERC20Permit("USD Coin") {}

    function decimals() public pure override returns (uint8) {
        return 6;
    }

    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }

    function setBlocked(address account, bool value) external {
        blocked[account] = value;
    }

    function arm(Mode mode, address target, bytes calldata data) external {
        _mode = mode;
        _target = target;
        _data = data;
    }

    function transfer(address to, uint256 value) public override returns (bool) {
        return _misbehave(msg.sender, to, value, false);
    }

    function transferFrom(address from, address to, uint256 value)
        public
        override
        returns (bool)
    {
        return _misbehave(from, to, value, true);
    }

    function _misbehave(address from, address to, uint256 value, bool spends)
        private
        returns (bool)
    {
        require(!blocked[from] && !blocked[to], "account is blocked");
        if (_mode == Mode.ReturnFalse) return false;
        if (_mode == Mode.Refuse) revert("no transfers today");
        if (_mode == Mode.RefuseHugely) {
            assembly {
                revert(0, 100000)
            }
        }
        if (_mode == Mode.AnswerHugely) {
            assembly {
                return(0, 100000)
            }
        }
        if (_mode == Mode.BurnGas) {
            while (true) {}
        }
        if (_mode == Mode.CallBack) {
            (bool success, bytes memory returned) = _target.call(_data);
            emit CalledBack(success, returned);
        }
        if (spends) _spendAllowance(from, msg.sender, value);
        _transfer(from, to, value);
        if (_mode == Mode.TakeFee) _transfer(to, FEE_RECEIVER, value / FEE_PART);
        if (_mode == Mode.ReturnNothing) {
            assembly {
                return(0, 0)
            }
        }
        return true;
    }
}
