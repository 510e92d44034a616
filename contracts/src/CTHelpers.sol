// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";

/// Computes the ids of the Gnosis Conditional Tokens, bit for bit: condition ids, collection ids and position ids.
///
/// A collection id is a point on the curve alt_bn128: its x coordinate, with the parity of y in bit 254. The id of
/// nested collections is the sum of their points, so the order of nesting does not matter. For a single outcome set, x
/// is found by counting up from a hash until x³ + 3 is a square.
library CTHelpers {
    uint256 private constant P =
        21888242871839275222246405745257275088696311157297823662689037894645226208583;
    uint256 private constant B = 3;
    /// (P + 1) / 4. Because P ≡ 3 (mod 4), a square raised to this power gives its square root.
    uint256 private constant SQRT_EXPONENT =
        5472060717959818805561601436314318772174077789324455915672259473661306552146;
    uint256 private constant ODD_TOGGLE = 1 << 254;

    function getConditionId(address oracle, bytes32 questionId, uint256 outcomeSlotCount)
        internal
        pure
        returns (bytes32)
    {
        return keccak256(abi.encodePacked(oracle, questionId, outcomeSlotCount));
    }

    function getCollectionId(bytes32 parentCollectionId, bytes32 conditionId, uint256 indexSet)
        internal
        view
        returns (bytes32)
    {
        uint256 x1 = uint256(keccak256(abi.encodePacked(conditionId, indexSet)));
        bool odd = x1 >> 255 != 0;
        uint256 y1;
        uint256 yy;
        do {
            x1 = addmod(x1, 1, P);
            yy = _curve(x1);
            y1 = _root(yy);
        } while (mulmod(y1, y1, P) != yy);
        y1 = _withParity(y1, odd);

        uint256 x2 = uint256(parentCollectionId);
        if (x2 != 0) {
            odd = x2 >> 254 != 0;
            x2 = (x2 << 2) >> 2;
            yy = _curve(x2);
            uint256 y2 = _withParity(_root(yy), odd);
            require(mulmod(y2, y2, P) == yy, "invalid parent collection ID");

            (bool success, bytes memory sum) =
                address(6).staticcall(abi.encode(x1, y1, x2, y2));
            require(success, "ecadd failed");
            (x1, y1) = abi.decode(sum, (uint256, uint256));
        }

        if (y1 % 2 == 1) x1 ^= ODD_TOGGLE;
        return bytes32(x1);
    }

    function getPositionId(IERC20 collateralToken, bytes32 collectionId)
        internal
        pure
        returns (uint256)
    {
        return uint256(keccak256(abi.encodePacked(collateralToken, collectionId)));
    }

    function _curve(uint256 x) private pure returns (uint256) {
        return addmod(mulmod(x, mulmod(x, x, P), P), B, P);
    }

    function _withParity(uint256 y, bool odd) private pure returns (uint256) {
        return (y % 2 == 1) == odd ? y : P - y;
    }

    /// Returns a square root of `yy` modulo P, computed by the modular exponentiation precompile.
    /// If `yy` has no root, the result is another number, so the caller must check it.
    function _root(uint256 yy) private view returns (uint256 y) {
        bool success;
        assembly ("memory-safe") {
            let input := mload(0x40)
            mstore(input, 0x20)
            mstore(add(input, 0x20), 0x20)
            mstore(add(input, 0x40), 0x20)
            mstore(add(input, 0x60), yy)
            mstore(add(input, 0x80), SQRT_EXPONENT)
            mstore(add(input, 0xa0), P)
            success := staticcall(gas(), 5, input, 0xc0, 0x00, 0x20)
            y := mload(0x00)
        }
        require(success, "modexp failed");
    }
}
